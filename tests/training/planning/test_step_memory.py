"""Memory of a step: fake tensors give the bytes of real ones, and these are what they should be."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.contracts.training_cases import TOKENS, Case, batches_of, covering_cases, model_of

from regard.batch import Batch, Example, collate
from regard.core.errors import UserError
from regard.models.families.decoder import Decoder
from regard.ops.cpu.library import without_kernels
from regard.training.planning.step_memory import StepMemory, count_step, step_memory


def rows_of(count: int, *, length: int = 64) -> Batch:
    ids = np.arange(length) % 100
    rows = [Example(ids, ids, np.ones(length, np.float32)) for _ in range(count)]
    return collate(rows, pad_id=0, rows=range(count))


def fake(family: Decoder, batch: Batch, *, accumulates: bool = False) -> StepMemory:
    return step_memory(
        lambda: family.build(vocabulary=100, seed=0),
        batch,
        accumulates=accumulates,
        autocast=nullcontext,
    )


SOME = (
    Case("decoder, documents apart", "dot", "learned", "causal", "full", TOKENS),
    Case("encoder-decoder", "additive", "relative", "spans", "full", TOKENS),
    Case("encoder", "dot", "alibi", "masked", "lora", "label of the first"),
)
RECURRENT = Case("recurrent", "dot", "none", "prefix", "full", TOKENS)


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.long)])
def test_fake_tensors_take_the_bytes_of_real_ones(more: bool) -> None:
    every = [case for case in covering_cases() if case.family != "recurrent"] if more else []
    for case in every[::5] or SOME:
        [batch] = batches_of(case, count=1)
        predicted = step_memory(
            lambda case=case: model_of(case), batch, accumulates=True, autocast=nullcontext
        )
        counted = count_step(model_of(case), batch, accumulates=True, autocast=nullcontext)
        # Where values are at hand, a path may be chosen by them: none of it differs by much.
        assert predicted.activations == pytest.approx(counted.activations, rel=0.05), case.id
        assert predicted.parameters == counted.parameters, case.id
        assert predicted.gradients == counted.gradients > 0, case.id


def test_a_step_that_depends_on_values_is_refused() -> None:
    case = RECURRENT
    [batch] = batches_of(case, count=1)
    with pytest.raises(UserError, match="cannot be predicted"):
        step_memory(lambda: model_of(case), batch, accumulates=False, autocast=nullcontext)


def test_parameters_gradients_and_moments_follow_from_the_counts() -> None:
    family = Decoder(layers=2, heads=2, width=32, context=64)
    count = sum(term.value for term in family.count_parameters(100))
    found = fake(family, rows_of(2))
    assert found.parameters == found.gradients == 4 * count
    assert found.moments == 8 * count
    assert found.blocks == 2 * found.largest_block > 0
    assert found.total == 16 * count + found.activations


def test_activations_grow_with_rows_and_layers_by_equal_steps() -> None:
    def activations(layers: int, rows: int) -> int:
        family = Decoder(layers=layers, heads=2, width=32, context=64)
        with without_kernels():
            return fake(family, rows_of(rows)).activations

    for series in (
        [activations(layers, 8) for layers in (4, 6, 8)],
        [activations(4, rows) for rows in (8, 16, 24)],
    ):
        first, second = (b - a for a, b in pairwise(series))
        assert first == pytest.approx(second, rel=0.02)
        assert first > 0


def test_the_formula_of_a_decoder_holds() -> None:
    """docs/scale.md: bytes per position and layer of a GPT block in float32, by the tensors that
    its operations keep for the backward pass."""
    w, length, rows = 64, 64, 8
    with without_kernels():
        deep, flat = (
            fake(Decoder(layers=n, heads=2, width=w, context=length), rows_of(rows, length=length))
            for n in (9, 5)
        )
    per_position = (deep.activations - flat.activations) / (4 * rows * length)
    # Norm inputs 2w, their outputs 2w, q k v 3w, attention's output w, hidden and activated 8w.
    assert per_position == pytest.approx(4 * 16 * w, rel=0.05)


def test_bf16_halves_most_of_it() -> None:
    family = Decoder(layers=6, heads=2, width=64, context=64)

    def autocast() -> torch.autocast:
        return torch.autocast("cpu", dtype=torch.bfloat16)

    with without_kernels():
        full = fake(family, rows_of(16)).activations
        half = step_memory(
            lambda: family.build(vocabulary=100, seed=0),
            rows_of(16),
            accumulates=False,
            autocast=autocast,
        ).activations
    assert 0.4 * full < half < 0.95 * full


def test_nothing_is_allocated() -> None:
    family = Decoder(layers=48, heads=64, width=8192, context=64)  # 39 billion values
    assert fake(family, rows_of(1)).parameters > 150e9
