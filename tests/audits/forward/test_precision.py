"""The float64 re-check separates influence from rounding, and reports float32-only influence."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.audits.toy_models import ToyTransformer, minimal_subject
from torch import Tensor

from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.modes import EVALUATION, forward_modes
from regard.audits.forward.precision import recheck_in_float64, relative_change
from regard.audits.notes import Notes

MODE = forward_modes(minimal_subject(ToyTransformer()), Notes())[EVALUATION]


@given(st.floats(1e-8, 10.0), st.floats(1e-8, 1e-6))
@settings(max_examples=50, deadline=None)
def test_rounding_is_separated_from_influence(size: float, noise: float) -> None:
    """In float64 rounding falls to about 1e-16; influence stays."""
    first = torch.tensor([[size + noise, noise]], dtype=torch.float64)
    second = torch.tensor([[size, noise * 2e-9]], dtype=torch.float64)
    influence = recheck_in_float64(first, lambda _: second, mode=MODE, notes=Notes())
    assert influence.sizes.tolist() == [[size, 0.0]]
    assert not influence.only_in


def test_without_float64_small_changes_are_rounding_and_noted() -> None:
    def fail(mode: ForwardMode) -> Tensor:
        raise ForwardError("no float64 here")

    notes = Notes()
    first = torch.tensor([1e-6, 0.5]).double()
    assert recheck_in_float64(first, fail, mode=MODE, notes=notes).sizes.tolist() == [0.0, 0.5]
    assert "no float64 here" in notes.unchecked[0]


@given(st.floats(2e-3, 10.0))
@settings(max_examples=20, deadline=None)
def test_influence_in_float32_only_counts_far_above_rounding(size: float) -> None:
    first = torch.tensor([[size, 1e-6]], dtype=torch.float64)

    def measure(mode: ForwardMode) -> Tensor:
        return torch.zeros_like(first) if mode.float64 else first

    influence = recheck_in_float64(first, measure, mode=MODE, notes=Notes())
    assert influence.sizes.tolist() == [[size, 0.0]]
    assert influence.describe("perturbation") == "perturbation, in float32 only"


@pytest.mark.parametrize(
    ("again", "message"),
    [(torch.zeros(40), "not in every run"), (torch.tensor([0.3] + [1e-6] * 39), "rarely")],
)
def test_inconsistent_or_rare_float32_changes_are_a_doubt(again: Tensor, message: str) -> None:
    first = torch.tensor([0.3] + [1e-6] * 39).double()

    def measure(mode: ForwardMode) -> Tensor:
        return torch.zeros_like(first) if mode.float64 else again.double()

    influence = recheck_in_float64(first, measure, mode=MODE, notes=Notes())
    assert not influence.sizes.any()
    assert message in influence.doubt


def test_relative_change_with_infinities() -> None:
    before = torch.tensor([[[3.0, -torch.inf], [4.0, 1.0]]])
    after = before.clone()
    assert relative_change(before, after).tolist() == [[0.0, 0.0]]
    after[0, 1, 1] = 2.0
    assert relative_change(before, after)[0, 1] == pytest.approx(1 / (26 / 4) ** 0.5)
    after[0, 0, 0] = torch.nan
    assert relative_change(before, after)[0, 0] == torch.inf
