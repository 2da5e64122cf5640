"""Every planted leak is found, and clean models raise no alarm."""

from collections.abc import Sequence
from functools import cache

import pytest
from tests.audits.clean_models import clean
from tests.audits.planted_leaks import LEAKS

from regard.audits.forward.modes import forward_modes
from regard.audits.leaks.causality import Leak, find_leaks
from regard.audits.leaks.permission import build_permission
from regard.audits.notes import Notes
from regard.audits.subject import Subject

QUICK = 60
ALL = 1_000


def search(
    subject: Subject, mask: str = "causal", *, lengths: Sequence[int] | None = None
) -> tuple[list[Leak], Notes]:
    notes = Notes()
    found = find_leaks(
        forward_modes(subject, notes), build_permission(mask), notes, lengths=lengths
    )
    return found, notes


@cache
def leaks_in(name: str) -> list[Leak]:
    return search(LEAKS[name]())[0]


def test_there_are_enough_leaks() -> None:
    assert len(LEAKS) >= 30


@pytest.mark.parametrize("name", LEAKS)
def test_a_planted_leak_is_found(name: str) -> None:
    leaks = leaks_in(name)
    assert leaks
    assert all(leak.key > leak.query for leak in leaks)
    assert all(leak.influence > 0 for leak in leaks)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("training mode only", "training mode"),
        ("training mode only, under dropout", "training mode"),
        ("mask dropped when weights are requested", "with weights requested"),
        ("mask lost in the cache", "through the cache"),
        ("padding mask instead of the causal one", "with padding"),
        ("behind a gate that starts at zero", "with shaken parameters"),
        ("batch statistics in training", "training mode"),
        ("only past a length", "evaluation mode, length 40"),
    ],
)
def test_a_leak_is_placed_where_it_is(name: str, where: str) -> None:
    leaks = leaks_in(name)
    assert leaks[0].where.startswith(where)


def test_exactly_the_leaking_pairs_are_named() -> None:
    leaks = leaks_in("one pair")
    assert [(leak.query, leak.key, leak.how) for leak in leaks] == [(3, 9, "perturbation")]


def test_pairs_through_two_layers_follow_the_path() -> None:
    """3 sees 9, and 9 has seen all before it: 3 depends on 4 … 9, and so does what sees 3."""
    leaks = leaks_in("one pair, two layers")
    assert {leak.key for leak in leaks if leak.query == 3} == {4, 5, 6, 7, 8, 9}
    assert {leak.query for leak in leaks} == {3, 4, 5, 6, 7, 8}


def test_what_only_gradients_can_see() -> None:
    leaks = leaks_in("penalty 60")
    assert {leak.how for leak in leaks} == {"gradient"}
    assert max(leak.influence for leak in leaks) < 1e-20


def test_what_only_float32_shows() -> None:
    leaks = leaks_in("mask forgotten in float32")
    assert {leak.how for leak in leaks} == {"perturbation, in float32 only"}
    assert len(leaks) == 66


def test_what_only_cutting_can_see() -> None:
    leaks = leaks_in("positions counted from the end")
    assert {leak.how for leak in leaks} == {"truncation"}


@pytest.mark.parametrize("seed", range(QUICK))
def test_a_clean_model_raises_no_alarm(seed: int) -> None:
    one = clean(seed)
    leaks, notes = search(one.subject, one.mask, lengths=[6])
    assert not leaks, one.described
    assert not notes.doubts, one.described


@pytest.mark.long
def test_a_thousand_clean_models_raise_no_alarm() -> None:
    for seed in range(ALL):
        one = clean(seed)
        leaks, notes = search(one.subject, one.mask)
        assert not leaks, one.described
        assert not notes.doubts, one.described
