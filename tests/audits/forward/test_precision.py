"""The second look: influence is told from rounding, and what float32 alone shows is told apart."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.audits.toy_models import Toy, bare
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardMode, RefusedError
from regard.audits.forward.modes import EVALUATION, forward_modes
from regard.audits.forward.precision import recheck_in_float64, relative_change
from regard.audits.notes import Notes

VIEW = forward_modes(bare(Toy()), Notes())[EVALUATION]


@given(st.floats(1e-8, 10.0), st.floats(1e-8, 1e-6))
@settings(max_examples=50, deadline=None)
def test_noise_is_told_from_influence(size: float, noise: float) -> None:
    """In float64 noise falls to 1e-16 or so; influence stays."""
    first = torch.tensor([[size + noise, noise]], dtype=torch.float64)
    second = torch.tensor([[size, noise * 2e-9]], dtype=torch.float64)
    stands = recheck_in_float64(first, lambda _: second, view=VIEW, notes=Notes())
    assert stands.sizes.tolist() == [[size, 0.0]]
    assert not stands.only_in


def test_without_a_second_look_small_differences_are_noise_and_that_is_said() -> None:
    def refuse(view: ForwardMode) -> Tensor:
        raise RefusedError("no float64 here")

    notes = Notes()
    first = torch.tensor([1e-6, 0.5]).double()
    assert recheck_in_float64(first, refuse, view=VIEW, notes=notes).sizes.tolist() == [0.0, 0.5]
    assert "no float64 here" in notes.unchecked[0]


@given(st.floats(2e-3, 10.0))
@settings(max_examples=20, deadline=None)
def test_what_float32_alone_shows_far_above_rounding_stands(size: float) -> None:
    first = torch.tensor([[size, 1e-6]], dtype=torch.float64)

    def measure(view: ForwardMode) -> Tensor:
        return torch.zeros_like(first) if view.wide else first

    stands = recheck_in_float64(first, measure, view=VIEW, notes=Notes())
    assert stands.sizes.tolist() == [[size, 0.0]]
    assert stands.told("perturbation") == "perturbation, in float32 only"


@pytest.mark.parametrize(
    ("again", "says"),
    [(torch.zeros(40), "not each time"), (torch.tensor([0.3] + [1e-6] * 39), "seldom")],
)
def test_what_float32_shows_by_chance_is_a_doubt(again: Tensor, says: str) -> None:
    first = torch.tensor([0.3] + [1e-6] * 39).double()

    def measure(view: ForwardMode) -> Tensor:
        return torch.zeros_like(first) if view.wide else again.double()

    stands = recheck_in_float64(first, measure, view=VIEW, notes=Notes())
    assert not stands.sizes.any()
    assert says in stands.doubt


def test_change_is_relative_and_knows_infinities() -> None:
    before = torch.tensor([[[3.0, -torch.inf], [4.0, 1.0]]])
    after = before.clone()
    assert relative_change(before, after).tolist() == [[0.0, 0.0]]
    after[0, 1, 1] = 2.0
    assert relative_change(before, after)[0, 1] == pytest.approx(1 / (26 / 4) ** 0.5)
    after[0, 0, 0] = torch.nan
    assert relative_change(before, after)[0, 0] == torch.inf
