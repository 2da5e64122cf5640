"""Sinusoids follow their formula; widths that cannot be are refused in words."""

import math

import pytest
import torch

from regard.attention.positions.sinusoidal import Sinusoidal
from regard.errors import UserError


def test_sinusoids_follow_the_formula():
    table = Sinusoidal().build(width=6, context=50)(torch.arange(50))
    for t, c in [(0, 0), (7, 1), (49, 2)]:
        angle = t / 10_000 ** (2 * c / 6)
        assert math.isclose(float(table[t, 2 * c]), math.sin(angle), abs_tol=1e-6)
        assert math.isclose(float(table[t, 2 * c + 1]), math.cos(angle), abs_tol=1e-6)


def test_nearby_places_have_large_inner_products():
    table = Sinusoidal().build(width=48, context=100)(torch.arange(100))
    products = table[50] @ table.T
    assert products[50] > products[51] > products[55] > products[70]


def test_an_odd_width_is_refused():
    with pytest.raises(UserError, match=r"47 is odd.*even model\.width"):
        Sinusoidal().build(width=47, context=10)
