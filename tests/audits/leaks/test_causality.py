"""The causality audit's parts: what is forbidden, how a model is run, what counts as influence."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.audits.clean_models import CausalFFTConv
from tests.audits.planted_leaks import lookahead
from tests.audits.toy_models import Components, ToyTransformer, full_subject, minimal_subject
from torch import Tensor, nn

from regard.audits.build_subject import build_subject
from regard.audits.forward.float64 import force_float64
from regard.audits.forward.modes import EVALUATION, TRAINING, forward_modes, mixed_chunks
from regard.audits.leaks.causality import find_leaks
from regard.audits.leaks.permission import Permission, build_permission
from regard.audits.leaks.perturbation import build_trials
from regard.audits.notes import Notes
from regard.audits.subject import Subject
from regard.core.errors import UserError

tables = st.integers(2, 9).flatmap(
    lambda t: st.lists(st.booleans(), min_size=t * t, max_size=t * t).map(
        lambda cells: torch.tensor(cells).view(t, t)
    )
)


@given(tables)
def test_reachable_is_a_transitive_closure(table: Tensor) -> None:
    reached = build_permission(table).reachable(len(table))
    assert bool(reached.diagonal().all())
    assert bool((reached | ~table).all())
    second = (reached.int() @ reached.int()) > 0
    assert torch.equal(second, reached)


def test_reachable_contains_exactly_the_paths() -> None:
    table = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]).bool()
    expected = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]).bool()
    assert torch.equal(build_permission(table).reachable(4), expected)


@pytest.mark.parametrize(("name", "forbidden"), [("causal", 10), ("bidirectional", 0)])
def test_named_masks(name: str, forbidden: int) -> None:
    assert int((~build_permission(name).reachable(5)).sum()) == forbidden


def test_prefix_is_bidirectional() -> None:
    reached = build_permission("prefix:3").reachable(5)
    assert reached[0].tolist() == [True, True, True, False, False]
    assert reached[3].tolist() == [True, True, True, True, False]


def test_truncation_affects_what_may_depend_on_the_rest() -> None:
    prefix = build_permission("prefix:3")
    assert prefix.unaffected_by_truncation(6, kept=4).tolist() == [True] * 4
    assert prefix.unaffected_by_truncation(6, kept=2).tolist() == [False] * 2
    assert not build_permission("bidirectional").unaffected_by_truncation(6, kept=4).any()


@pytest.mark.parametrize("mask", ["cuasal", "prefix", "prefix:x", torch.ones(3, 4).bool()])
def test_invalid_mask_raises(mask: object) -> None:
    with pytest.raises(UserError, match="mask"):
        build_permission(mask)  # type: ignore[arg-type]


def test_mask_function_without_a_table_raises() -> None:
    notes = Notes()
    nothing = Permission("nothing", lambda t: torch.ones(3, dtype=torch.bool))
    with pytest.raises(UserError, match=r"no \(t,t\) table"):
        find_leaks(forward_modes(minimal_subject(ToyTransformer()), notes), nothing, notes)


@given(tables, st.integers(2, 60), st.integers(0, 99))
def test_unaffected_queries_of_a_trial_reach_no_changed_position(
    table: Tensor, rows: int, seed: int
) -> None:
    reached = build_permission(table).reachable(len(table))
    subject = Subject("none", lambda module, ids, valid: ids, vocabulary=7)
    generator = torch.Generator().manual_seed(seed)
    base = subject.draw(1, len(table), generator)
    trials = build_trials(subject, base, reached, rows=rows, generator=generator)
    assert len(trials.inputs) <= max(2, rows)
    assert torch.equal(trials.inputs != base, trials.changed)
    for changed, unaffected in zip(trials.changed, trials.unaffected(reached), strict=True):
        assert not (reached[unaffected] & changed).any()


def test_every_forbidden_position_is_perturbed_where_affordable() -> None:
    reached = build_permission("causal").reachable(8)
    subject = Subject("none", lambda module, ids, valid: ids, vocabulary=7)
    generator = torch.Generator().manual_seed(0)
    base = subject.draw(1, 8, generator)
    trials = build_trials(subject, base, reached, rows=100, generator=generator)
    single = trials.changed.sum(dim=1) == 1
    assert int(trials.changed[single].any(dim=0).sum()) == 7


def test_mixed_chunks() -> None:
    assert list(mixed_chunks(12)) == [5, 6, 9]
    assert list(mixed_chunks(1)) == []


# Forward modes.


class StatefulModel(nn.Module):
    """Dropout, batch statistics, a counting buffer, Python's random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(9, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, ids: Tensor) -> Tensor:
        self.calls += 1
        x: Tensor = self.norm(self.drop(self.tokens(ids)).transpose(1, 2)).transpose(1, 2)
        return x * (1 + random.random() * self.training)


def test_model_and_random_state_are_unchanged() -> None:
    model = StatefulModel()
    model.norm.eval()
    model.tokens.weight.grad = torch.ones_like(model.tokens.weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random.seed(5)
    torch.manual_seed(5)
    states = (random.getstate(), torch.get_rng_state())
    dtype = torch.get_default_dtype()
    notes = Notes()
    find_leaks(forward_modes(build_subject(model), notes), build_permission("causal"), notes)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert (model.training, model.norm.training, model.drop.training) == (True, False, True)
    assert torch.equal(model.tokens.weight.grad, torch.ones_like(model.tokens.weight))
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert torch.get_default_dtype() == dtype
    assert not model.tokens._forward_hooks


class UncopyableModel(StatefulModel):
    def __deepcopy__(self, memo: object) -> "UncopyableModel":
        raise TypeError("this holds a file")


def test_uncopyable_model_is_unchanged() -> None:
    model = UncopyableModel()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    notes = Notes()
    leaks = find_leaks(
        forward_modes(build_subject(model), notes), build_permission("causal"), notes
    )
    assert {leak.where for leak in leaks} >= {"training mode, length 12"}
    assert any("this holds a file" in note for note in notes.unchecked)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert model.tokens.weight.dtype == torch.float32


def test_dropout_draws_the_same_mask_in_each_pass() -> None:
    modes = forward_modes(minimal_subject(ToyTransformer(Components(dropout=0.5))), Notes())
    ids = torch.randint(19, (3, 8))
    once, second = modes[TRAINING].outputs(ids), modes[TRAINING].outputs(ids)
    assert torch.equal(once, second)
    assert not torch.equal(once, modes[EVALUATION].outputs(ids))


class UpcastingModel(nn.Module):
    """Casts to float32 inside, and has a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(9, 6)
        self.plain = torch.randn(6, 6)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.tokens(ids).float() @ self.plain
        return x.softmax(dim=-1, dtype=torch.float32) + torch.zeros(6)


def test_float64_pass_is_in_float64_throughout() -> None:
    model = UpcastingModel()
    mode = forward_modes(build_subject(model), Notes())[EVALUATION]
    ids = torch.randint(9, (2, 5))
    in_float64 = mode.in_float64().outputs(ids)
    weight = model.tokens.weight.double()
    assert in_float64.dtype == torch.float64
    expected = (weight[ids] @ model.plain.double()).softmax(dim=-1)
    assert torch.allclose(in_float64, expected, atol=1e-14, rtol=0)


def test_force_float64_is_undone_after_an_error() -> None:
    def fail() -> None:
        with force_float64():
            assert torch.zeros(1).dtype == torch.float64
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.zeros(1).dtype == torch.float32


# Doubts and notes.


def notes_without_leaks(subject: Subject) -> Notes:
    notes = Notes()
    assert not find_leaks(forward_modes(subject, notes), build_permission("causal"), notes)
    return notes


def test_random_outputs_are_a_doubt() -> None:
    generator = torch.Generator()

    def run(module: object, ids: Tensor, valid: object) -> Tensor:
        return torch.rand(*ids.shape, 3, generator=generator)

    notes = notes_without_leaks(Subject("random", run, vocabulary=9))
    assert "different outputs" in notes.doubts[0]


def test_nan_is_a_doubt() -> None:
    def run(module: object, ids: Tensor, valid: object) -> Tensor:
        return torch.full((*ids.shape, 3), torch.nan)

    assert "NaN" in notes_without_leaks(Subject("nan", run, vocabulary=9)).doubts[0]


def test_constant_outputs_are_a_doubt() -> None:
    def run(module: object, ids: Tensor, valid: object) -> Tensor:
        return torch.zeros(*ids.shape, 3)

    assert (
        "do not depend on the inputs"
        in notes_without_leaks(Subject("zero", run, vocabulary=9)).doubts[0]
    )


def test_callable_without_a_module_is_rechecked_in_float64() -> None:
    """Rows of another length round differently, yet nothing leaks."""
    model = ToyTransformer(Components(layers=2, scale=8.0)).eval()
    notes = notes_without_leaks(
        Subject("callable", lambda module, ids, valid: model(ids), vocabulary=19)
    )
    assert not notes.doubts
    assert any("training mode" in note for note in notes.unchecked)
    assert not any("float64" in note for note in notes.unchecked)


def raising(
    problem: Exception, *, when: Callable[[ToyTransformer, Tensor], bool]
) -> ToyTransformer:
    class Raising(ToyTransformer):
        def forward(self, ids: Tensor, **options: object) -> Tensor:
            if when(self, ids):
                raise problem
            return super().forward(ids, **options)  # type: ignore[arg-type]

    return Raising(Components(max_length=12))


@pytest.mark.parametrize("problem", [ValueError("no labels"), UserError("no labels", topic="x")])
def test_error_in_training_mode_is_a_doubt(problem: Exception) -> None:
    notes = notes_without_leaks(
        minimal_subject(raising(problem, when=lambda model, ids: model.training))
    )
    assert len(notes.doubts) == 1
    assert notes.doubts[0].startswith("training mode, length 12: ")
    assert notes.doubts[0].endswith("no labels")


def test_model_without_batching_is_a_doubt() -> None:
    notes = notes_without_leaks(
        minimal_subject(raising(ValueError("one row"), when=lambda model, ids: len(ids) > 1))
    )
    assert "evaluation mode, length 12: ValueError: one row" in notes.doubts


def test_error_in_an_optional_mode_is_noted_but_no_doubt() -> None:
    def refuse(*given: object) -> Tensor:
        raise UserError("this kind keeps no cache", topic="attention")

    subject = full_subject(ToyTransformer(Components(max_length=12)))
    notes = notes_without_leaks(replace(subject, run_cached=refuse, run_with_weights=refuse))
    assert not notes.doubts
    note = "with the KV cache, length 12: attention: this kind keeps no cache"
    assert note in notes.unchecked


def test_declared_length_beyond_the_real_limit() -> None:
    """RoBERTa's position table is two larger than its maximum length."""
    notes = notes_without_leaks(replace(minimal_subject(ToyTransformer()), max_length=50))
    assert not notes.doubts
    assert any(note.startswith("evaluation mode, length 40") for note in notes.checked)
    assert any("lengths above 40" in note for note in notes.unchecked)


def test_padding_stays_within_the_maximum_length() -> None:
    notes = notes_without_leaks(full_subject(ToyTransformer(Components(max_length=12))))
    assert any(note.startswith("with padding on the left, length 9") for note in notes.checked)
    notes = notes_without_leaks(full_subject(ToyTransformer(Components(max_length=3))))
    assert any("leaves none for padding" in note for note in notes.unchecked)
    assert not notes.doubts


@pytest.mark.parametrize("max_length", [2, 3])
def test_model_of_two_or_three_positions_is_tested(max_length: int) -> None:
    notes = Notes()
    modes = forward_modes(
        minimal_subject(ToyTransformer(Components(mask=lookahead(1), max_length=max_length))), notes
    )
    leaks = find_leaks(modes, build_permission("causal"), notes)
    assert (0, 1) in {(leak.query, leak.key) for leak in leaks}
    assert not notes_without_leaks(
        minimal_subject(ToyTransformer(Components(max_length=max_length)))
    ).doubts


def test_model_of_one_position_is_a_doubt() -> None:
    notes = notes_without_leaks(minimal_subject(ToyTransformer(Components(max_length=1))))
    assert "accepts one position" in notes.doubts[0]


def test_unknown_maximum_length_is_noted() -> None:
    notes = notes_without_leaks(build_subject(ToyTransformer(Components(max_length=300))))
    assert any("lengths above 259" in note and "not known" in note for note in notes.unchecked)


@pytest.mark.parametrize(
    ("lengths", "mask", "message"),
    [
        ([1], "causal", "length 1 cannot be audited: the mask causal forbids nothing"),
        ([6, 41], "causal", "length 41 .* 1 to 40 positions"),
        ([0], "causal", "length 0 "),
        ([5], torch.ones(7, 7).tril().bool(), "a table for length 7"),
    ],
)
def test_untestable_lengths_raise(lengths: list[int], mask: str | Tensor, message: str) -> None:
    notes = Notes()
    with pytest.raises(UserError, match=message):
        find_leaks(
            forward_modes(minimal_subject(ToyTransformer()), notes),
            build_permission(mask),
            notes,
            lengths=lengths,
        )


def test_mask_table_of_one_size() -> None:
    notes = Notes()
    table = torch.ones(7, 7).tril(1).bool()
    modes = forward_modes(
        minimal_subject(ToyTransformer(Components(mask=lambda p: (p.j <= p.i + 1)[None, None]))),
        notes,
    )
    assert not find_leaks(modes, build_permission(table), notes)
    leaks = find_leaks(modes, build_permission(torch.ones(7, 7).tril().bool()), notes)
    assert {(leak.query, leak.key) for leak in leaks} == {(i, i + 1) for i in range(6)}


def test_lengths_that_a_model_rejects_are_noted() -> None:
    notes = notes_without_leaks(build_subject(ToyTransformer()))
    assert any("lengths above 40" in note and "40 at most" in note for note in notes.unchecked)
    assert any("evaluation mode, length 40" in note for note in notes.checked)


def test_padding_does_not_make_a_clean_model_leak() -> None:
    notes = notes_without_leaks(full_subject(ToyTransformer(Components(layers=2))))
    assert any(note.startswith("with padding on the left") for note in notes.checked)


def test_rounding_of_a_float64_model_is_no_leak() -> None:
    """Rounding of an FFT at forbidden positions is below the floor."""
    assert not notes_without_leaks(
        minimal_subject(ToyTransformer(Components(extra=CausalFFTConv, max_length=12)).double())
    ).doubts


def test_model_may_write_into_its_input() -> None:
    class Writing(ToyTransformer):
        def forward(self, ids: Tensor, **options: object) -> Tensor:
            out = super().forward(ids, **options)  # type: ignore[arg-type]
            ids.zero_()
            return out

    notes = Notes()
    modes = forward_modes(
        minimal_subject(Writing(Components(mask=lookahead(1), max_length=12))), notes
    )
    assert find_leaks(modes, build_permission("causal"), notes)
