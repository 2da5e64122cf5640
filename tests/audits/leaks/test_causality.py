"""The causality audit's parts: what is forbidden, how a model is run, what counts as influence."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.audits.clean_models import LongFilter
from tests.audits.planted_leaks import ahead
from tests.audits.toy_models import Parts, Toy, bare, subject_around
from torch import Tensor, nn

from regard.audits.build_subject import build_subject
from regard.audits.forward.float64 import force_float64
from regard.audits.forward.modes import EVALUATION, TRAINING, forward_modes, several
from regard.audits.leaks.causality import find_leaks
from regard.audits.leaks.permission import Permission, build_permission
from regard.audits.leaks.perturbation import trials_for
from regard.audits.notes import Notes
from regard.audits.subject import Subject
from regard.core.errors import UserError

tables = st.integers(2, 9).flatmap(
    lambda t: st.lists(st.booleans(), min_size=t * t, max_size=t * t).map(
        lambda cells: torch.tensor(cells).view(t, t)
    )
)


@given(tables)
@settings(max_examples=60, deadline=None)
def test_reachable_is_a_closure(table: Tensor) -> None:
    reached = build_permission(table).reachable(len(table))
    assert bool(reached.diagonal().all())
    assert bool((reached | ~table).all())
    again = (reached.int() @ reached.int()) > 0
    assert torch.equal(again, reached)


def test_reachable_takes_no_more_than_paths() -> None:
    table = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]).bool()
    expected = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]).bool()
    assert torch.equal(build_permission(table).reachable(4), expected)


@pytest.mark.parametrize(("name", "forbidden"), [("causal", 10), ("bidirectional", 0)])
def test_named_masks(name: str, forbidden: int) -> None:
    assert int((~build_permission(name).reachable(5)).sum()) == forbidden


def test_a_prefix_sees_itself_whole() -> None:
    reached = build_permission("prefix:3").reachable(5)
    assert reached[0].tolist() == [True, True, True, False, False]
    assert reached[3].tolist() == [True, True, True, True, False]


def test_cutting_touches_what_may_see_the_rest() -> None:
    prefix = build_permission("prefix:3")
    assert prefix.untouched_by_cut(6, kept=4).tolist() == [True] * 4
    assert prefix.untouched_by_cut(6, kept=2).tolist() == [False] * 2
    assert not build_permission("bidirectional").untouched_by_cut(6, kept=4).any()


@pytest.mark.parametrize("mask", ["cuasal", "prefix", "prefix:x", torch.ones(3, 4).bool()])
def test_a_mask_that_is_none(mask: object) -> None:
    with pytest.raises(UserError, match="mask"):
        build_permission(mask)  # type: ignore[arg-type]


def test_a_mask_function_that_gives_no_table() -> None:
    notes = Notes()
    nothing = Permission("nothing", lambda t: torch.ones(3, dtype=torch.bool))
    with pytest.raises(UserError, match=r"no \(t,t\) table"):
        find_leaks(forward_modes(bare(Toy()), notes), nothing, notes)


@given(tables, st.integers(2, 60), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_trials_change_only_forbidden_places_of_those_they_judge(
    table: Tensor, rows: int, seed: int
) -> None:
    reached = build_permission(table).reachable(len(table))
    subject = Subject("none", lambda module, ids, valid: ids, vocabulary=7)
    generator = torch.Generator().manual_seed(seed)
    base = subject.draw(1, len(table), generator)
    trials = trials_for(subject, base, reached, rows=rows, generator=generator)
    assert len(trials.inputs) <= max(2, rows)
    assert torch.equal(trials.inputs != base, trials.changed)
    for changed, untouched in zip(trials.changed, trials.untouched(reached), strict=True):
        assert not (reached[untouched] & changed).any()


def test_every_forbidden_pair_is_tried_where_there_is_room() -> None:
    reached = build_permission("causal").reachable(8)
    subject = Subject("none", lambda module, ids, valid: ids, vocabulary=7)
    generator = torch.Generator().manual_seed(0)
    base = subject.draw(1, 8, generator)
    trials = trials_for(subject, base, reached, rows=100, generator=generator)
    single = trials.changed.sum(dim=1) == 1
    assert int(trials.changed[single].any(dim=0).sum()) == 7


def test_pieces_of_the_cache() -> None:
    assert list(several(12)) == [5, 6, 9]
    assert list(several(1)) == []


# How a model is run.


class Moody(nn.Module):
    """Dropout, batch statistics, a buffer it counts in, Python's own random numbers."""

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


def test_a_model_is_left_as_it_was() -> None:
    model = Moody()
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


class Uncopied(Moody):
    def __deepcopy__(self, memo: object) -> "Uncopied":
        raise TypeError("this holds a file")


def test_a_model_that_cannot_be_copied_is_left_as_it_was_too() -> None:
    model = Uncopied()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    notes = Notes()
    leaks = find_leaks(
        forward_modes(build_subject(model), notes), build_permission("causal"), notes
    )
    assert {leak.where for leak in leaks} >= {"training mode, length 12"}
    assert any("this holds a file" in told for told in notes.unchecked)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert model.tokens.weight.dtype == torch.float32


def test_dropout_drops_the_same_each_time() -> None:
    ways = forward_modes(bare(Toy(Parts(dropout=0.5))), Notes())
    ids = torch.randint(19, (3, 8))
    once, again = ways[TRAINING].outputs(ids), ways[TRAINING].outputs(ids)
    assert torch.equal(once, again)
    assert not torch.equal(once, ways[EVALUATION].outputs(ids))


class Casting(nn.Module):
    """Casts to float32 inside, and holds a plain tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(9, 6)
        self.plain = torch.randn(6, 6)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.tokens(ids).float() @ self.plain
        return x.softmax(dim=-1, dtype=torch.float32) + torch.zeros(6)


def test_the_second_look_is_wide_all_the_way() -> None:
    model = Casting()
    view = forward_modes(build_subject(model), Notes())[EVALUATION]
    ids = torch.randint(9, (2, 5))
    wide = view.doubled().outputs(ids)
    weight = model.tokens.weight.double()
    assert wide.dtype == torch.float64
    expected = (weight[ids] @ model.plain.double()).softmax(dim=-1)
    assert torch.allclose(wide, expected, atol=1e-14, rtol=0)


def test_double_is_left_behind_even_on_errors() -> None:
    def fail() -> None:
        with force_float64():
            assert torch.zeros(1).dtype == torch.float64
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.zeros(1).dtype == torch.float32


# What cannot be judged.


def verdict_on(subject: Subject) -> Notes:
    notes = Notes()
    assert not find_leaks(forward_modes(subject, notes), build_permission("causal"), notes)
    return notes


def test_random_outputs_leave_a_doubt() -> None:
    generator = torch.Generator()

    def run(module: object, ids: Tensor, valid: object) -> Tensor:
        return torch.rand(*ids.shape, 3, generator=generator)

    notes = verdict_on(Subject("random", run, vocabulary=9))
    assert "different outputs" in notes.doubts[0]


def test_nan_leaves_a_doubt() -> None:
    def run(module: object, ids: Tensor, valid: object) -> Tensor:
        return torch.full((*ids.shape, 3), torch.nan)

    assert "NaN" in verdict_on(Subject("nan", run, vocabulary=9)).doubts[0]


def test_outputs_that_never_change_leave_a_doubt() -> None:
    def run(module: object, ids: Tensor, valid: object) -> Tensor:
        return torch.zeros(*ids.shape, 3)

    assert "do not react" in verdict_on(Subject("zero", run, vocabulary=9)).doubts[0]


def test_a_callable_without_a_module_gets_its_second_look() -> None:
    """Rows of another length round differently, yet nothing leaks."""
    toy = Toy(Parts(layers=2, scale=8.0)).eval()
    notes = verdict_on(Subject("callable", lambda module, ids, valid: toy(ids), vocabulary=19))
    assert not notes.doubts
    assert any("training mode" in told for told in notes.unchecked)
    assert not any("float64" in told for told in notes.unchecked)


def raising(problem: Exception, *, when: Callable[[Toy, Tensor], bool]) -> Toy:
    class Raising(Toy):
        def forward(self, ids: Tensor, **how: object) -> Tensor:
            if when(self, ids):
                raise problem
            return super().forward(ids, **how)  # type: ignore[arg-type]

    return Raising(Parts(max_length=12))


@pytest.mark.parametrize("problem", [ValueError("no labels"), UserError("no labels", topic="x")])
def test_training_mode_that_raises_leaves_a_doubt(problem: Exception) -> None:
    notes = verdict_on(bare(raising(problem, when=lambda toy, ids: toy.training)))
    assert len(notes.doubts) == 1
    assert notes.doubts[0].startswith("training mode, length 12: ")
    assert notes.doubts[0].endswith("no labels")


def test_rows_that_run_only_alone_leave_a_doubt() -> None:
    notes = verdict_on(bare(raising(ValueError("one row"), when=lambda toy, ids: len(ids) > 1)))
    assert "evaluation mode, length 12: ValueError: one row" in notes.doubts


def test_an_extra_that_a_model_refuses_is_told_and_no_doubt() -> None:
    def refuse(*given: object) -> Tensor:
        raise UserError("this kind keeps no cache", topic="attention")

    whole = subject_around(Toy(Parts(max_length=12)))
    notes = verdict_on(replace(whole, run_cached=refuse, run_with_weights=refuse))
    assert not notes.doubts
    told = "through the cache, length 12: attention: this kind keeps no cache"
    assert told in notes.unchecked


def test_a_model_that_says_it_takes_more_than_it_does() -> None:
    """RoBERTa's table of positions is two larger than the rows it takes."""
    notes = verdict_on(replace(bare(Toy()), max_length=50))
    assert not notes.doubts
    assert any(told.startswith("evaluation mode, length 40") for told in notes.checked)
    assert any("more than 40 places" in told for told in notes.unchecked)


def test_padding_keeps_within_the_longest_row() -> None:
    notes = verdict_on(subject_around(Toy(Parts(max_length=12))))
    assert any(told.startswith("with padding on the left, length 9") for told in notes.checked)
    notes = verdict_on(subject_around(Toy(Parts(max_length=3))))
    assert any("leave no room" in told for told in notes.unchecked)
    assert not notes.doubts


@pytest.mark.parametrize("longest", [2, 3])
def test_a_model_of_two_or_three_places_is_searched(max_length: int) -> None:
    notes = Notes()
    ways = forward_modes(bare(Toy(Parts(mask=ahead(1), max_length=max_length))), notes)
    leaks = find_leaks(ways, build_permission("causal"), notes)
    assert (0, 1) in {(leak.query, leak.key) for leak in leaks}
    assert not verdict_on(bare(Toy(Parts(max_length=max_length)))).doubts


def test_a_model_of_one_place_leaves_a_doubt() -> None:
    notes = verdict_on(bare(Toy(Parts(max_length=1))))
    assert "takes one place" in notes.doubts[0]


def test_where_the_longest_row_is_not_known_that_is_said() -> None:
    notes = verdict_on(build_subject(Toy(Parts(max_length=200))))
    assert any("more than 131 places" in told and "not known" in told for told in notes.unchecked)


@pytest.mark.parametrize(
    ("lengths", "mask", "says"),
    [
        ([1], "causal", "length 1 cannot be audited: the mask causal forbids nothing"),
        ([6, 41], "causal", "length 41 .* 1 to 40 places"),
        ([0], "causal", "length 0 "),
        ([5], torch.ones(7, 7).tril().bool(), "a table for rows of 7 places"),
    ],
)
def test_lengths_that_tell_nothing_are_refused(
    lengths: list[int], mask: str | Tensor, says: str
) -> None:
    notes = Notes()
    with pytest.raises(UserError, match=says):
        find_leaks(
            forward_modes(bare(Toy()), notes), build_permission(mask), notes, lengths=lengths
        )


def test_a_table_of_one_size() -> None:
    notes = Notes()
    table = torch.ones(7, 7).tril(1).bool()
    ways = forward_modes(bare(Toy(Parts(mask=lambda p: (p.j <= p.i + 1)[None, None]))), notes)
    assert not find_leaks(ways, build_permission(table), notes)
    leaks = find_leaks(ways, build_permission(torch.ones(7, 7).tril().bool()), notes)
    assert {(leak.query, leak.key) for leak in leaks} == {(i, i + 1) for i in range(6)}


def test_lengths_that_a_model_refuses_are_told() -> None:
    notes = verdict_on(build_subject(Toy()))
    assert any("more than 40 places" in told and "40 at most" in told for told in notes.unchecked)
    assert any("evaluation mode, length 40" in told for told in notes.checked)


def test_padding_cannot_hide_a_clean_model() -> None:
    notes = verdict_on(subject_around(Toy(Parts(layers=2))))
    assert any(told.startswith("with padding on the left") for told in notes.checked)


def test_a_model_in_float64_has_rounding_of_its_own() -> None:
    """What an FFT leaves at forbidden places is as small here as a second look could make it."""
    assert not verdict_on(bare(Toy(Parts(extra=LongFilter, max_length=12)).double())).doubts


def test_a_model_may_write_into_its_input() -> None:
    class Writing(Toy):
        def forward(self, ids: Tensor, **how: object) -> Tensor:
            out = super().forward(ids, **how)  # type: ignore[arg-type]
            ids.zero_()
            return out

    notes = Notes()
    ways = forward_modes(bare(Writing(Parts(mask=ahead(1), max_length=12))), notes)
    assert find_leaks(ways, build_permission("causal"), notes)
