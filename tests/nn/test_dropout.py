"""Dropout drops the share it says, keeps the mean, and follows torch's seed."""

import pytest
import torch

from regard.nn.dropout import Dropout, dropout, keep_mask, keep_probability, random_draws


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_that_is_dropped(p):
    torch.manual_seed(0)
    n = 200_000
    y = dropout(torch.ones(n), p)
    share = float((y == 0).float().mean())
    assert abs(share - p) < 5 * (p * (1 - p) / n) ** 0.5 + 1 / 65_536
    assert torch.allclose(y[y > 0], torch.tensor(1 / keep_probability(p)))
    assert abs(float(y.mean()) - 1) < 5 * (p / (1 - p) / n) ** 0.5


def test_every_one_of_the_four_draws_in_an_integer_is_fair():
    torch.manual_seed(0)
    each = random_draws((50_000, 4)).double()
    means = each.mean(dim=0) / 65_536
    assert float(means.abs().max()) < 5 * (1 / 12 / 50_000) ** 0.5
    beside = torch.corrcoef(each.T) - torch.eye(4)
    assert float(beside.abs().max()) < 5 / 50_000**0.5


def test_a_draw_just_below_the_border_drops_and_the_border_keeps():
    border = round(0.25 * 65_536) - 32_768
    near = torch.tensor([-32_768, border - 1, border, 32_767], dtype=torch.int16)
    assert keep_mask(near, 0.25, dtype=torch.float32).tolist() == [0.0, 0.0, 1.0, 1.0]


def test_the_seed_decides_and_only_in_training():
    x, layer = torch.randn(7, 5), Dropout(0.3)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert not torch.equal(layer(x), first)
    assert layer.eval()(x) is x


def test_the_gradient_is_that_of_what_was_kept():
    x = torch.randn(40, 3, requires_grad=True)
    y = dropout(x, 0.5)
    y.sum().backward()
    assert torch.equal(x.grad == 0, y == 0)
    assert torch.allclose(x.grad[y != 0], torch.tensor(2.0))


def test_almost_everything_can_be_dropped():
    torch.manual_seed(0)
    assert torch.isfinite(dropout(torch.ones(1000), 0.999999)).all()
