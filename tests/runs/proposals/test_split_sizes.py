"""Proposed splits are large enough to tell something, and no larger than needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.corpus import Data
from regard.evaluation.statistics.item_groups import MIN_GROUPS
from regard.evaluation.statistics.planning import smallest_difference
from regard.runs.proposals.split_sizes import (
    DIFFERENCE,
    FRACTIONS,
    propose_document_fraction,
    propose_sizes,
)

ROWS = st.integers(20, 200_000)


@given(ROWS, st.sampled_from(["rows", "groups"]))
def test_a_recipe_accepts_every_proposal(rows: int, unit: str) -> None:
    sizes = propose_sizes(rows, unit=unit, max_rows=2000)
    data = Data(corpus="a.csv", dev=sizes.fraction, test=sizes.fraction)
    assert data.dev == sizes.fraction
    assert sizes.describe()


@given(ROWS)
def test_the_smallest_fraction_that_shows_the_difference_is_taken(rows: int) -> None:
    sizes = propose_sizes(rows, unit="rows", max_rows=2000)
    shown = sizes.difference()
    smaller = [one for one in FRACTIONS if one < sizes.fraction]
    assert shown is None or shown <= DIFFERENCE or sizes.fraction == FRACTIONS[-1]
    assert all((sizes.difference(one) or 1) > DIFFERENCE for one in smaller)


@given(ROWS, st.integers(2, 20))
def test_more_rows_never_get_a_larger_fraction(rows: int, times: int) -> None:
    few, many = (
        propose_sizes(n, unit="rows", max_rows=2000).fraction for n in (rows, times * rows)
    )
    assert many <= few


def test_what_is_said_is_what_the_statistics_say() -> None:
    sizes = propose_sizes(1420, unit="rows", max_rows=2000)
    assert sizes.held_out == 284
    assert f"{smallest_difference(284):.2f}" in sizes.describe()
    assert f"71 rows and show {smallest_difference(71):.2f}" in sizes.describe()


def test_rows_beyond_the_evaluation_show_nothing_more() -> None:
    assert propose_sizes(10**6, unit="rows", max_rows=50).difference() == smallest_difference(50)


@pytest.mark.parametrize("groups", [34, 40, 50])
def test_few_groups_are_enough_for_a_verdict_where_they_can_be(groups: int) -> None:
    assert propose_sizes(groups, unit="groups", max_rows=2000).held_out >= MIN_GROUPS


def test_too_few_groups_are_said() -> None:
    sizes = propose_sizes(12, unit="groups", max_rows=2000)
    assert "differences above" not in sizes.describe()


@given(st.integers(1, 100_000))
def test_documents_are_enough_for_an_interval_where_they_can_be(documents: int) -> None:
    fraction = propose_document_fraction(documents)
    assert fraction in FRACTIONS
    assert fraction * documents >= 20 or fraction == FRACTIONS[-1]
