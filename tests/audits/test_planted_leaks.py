"""Every planted leak is found, and clean models have none."""

from collections.abc import Sequence
from functools import cache

import pytest
from tests.audits.clean_models import random_clean_model
from tests.audits.planted_leaks import LEAKS

from regard.audits.findings import Leak
from regard.audits.forward.modes import forward_modes
from regard.audits.leaks.causality import find_leaks
from regard.audits.leaks.permission import build_permission
from regard.audits.notes import Notes
from regard.audits.subject import Subject

FEW_MODELS = 40
MANY_MODELS = 1_000


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


def test_at_least_30_leaks_are_planted() -> None:
    assert len(LEAKS) >= 30


@pytest.mark.parametrize("name", LEAKS)
def test_planted_leak_is_found(name: str) -> None:
    leaks = leaks_in(name)
    assert leaks
    assert all(leak.key > leak.query for leak in leaks)
    assert all(leak.influence > 0 for leak in leaks)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("training mode only", "training mode"),
        ("training mode only, under dropout", "training mode"),
        ("mask dropped when weights are requested", "with attention weights requested"),
        ("mask lost in the cache", "with the KV cache"),
        ("padding mask instead of the causal one", "with padding"),
        ("behind a zero-initialised gate", "structural mode"),
        ("batch statistics in training", "training mode"),
        ("only past a length", "evaluation mode, length 40"),
    ],
)
def test_leak_is_located_in_its_forward_mode(name: str, where: str) -> None:
    leaks = leaks_in(name)
    assert leaks[0].where.startswith(where)


def test_exactly_the_leaking_pairs_are_reported() -> None:
    leaks = leaks_in("one pair")
    assert [(leak.query, leak.key, leak.how) for leak in leaks] == [(3, 9, "perturbation")]


def test_pairs_through_two_layers_follow_the_paths() -> None:
    """3 attends to 9, and 9 to all before it: 3 depends on 4 … 9, and so does what attends to 3."""
    leaks = leaks_in("one pair, two layers")
    assert {leak.key for leak in leaks if leak.query == 3} == {4, 5, 6, 7, 8, 9}
    assert {leak.query for leak in leaks} == {3, 4, 5, 6, 7, 8}


def test_large_penalty_is_found_by_gradient_only() -> None:
    leaks = leaks_in("penalty 60")
    assert {leak.how for leak in leaks} == {"gradient"}
    assert max(leak.influence for leak in leaks) < 1e-20


def test_leak_in_float32_only_is_reported_as_such() -> None:
    leaks = leaks_in("mask forgotten in float32")
    assert {leak.how for leak in leaks} == {"perturbation, in float32 only"}
    assert len(leaks) == 66


def test_dependence_on_length_is_found_by_truncation_only() -> None:
    leaks = leaks_in("positions counted from the end")
    assert {leak.how for leak in leaks} == {"truncation"}


@pytest.mark.parametrize("seed", range(FEW_MODELS))
def test_clean_model_has_no_leak(seed: int) -> None:
    drawn = random_clean_model(seed)
    leaks, notes = search(drawn.subject, drawn.mask, lengths=[6])
    assert not leaks, drawn.description
    assert not notes.doubts, drawn.description


@pytest.mark.long
def test_a_thousand_clean_models_have_no_leak() -> None:
    for seed in range(MANY_MODELS):
        drawn = random_clean_model(seed)
        leaks, notes = search(drawn.subject, drawn.mask)
        assert not leaks, drawn.description
        assert not notes.doubts, drawn.description
