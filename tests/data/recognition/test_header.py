"""A first row that names the columns, and one that is a row like the others."""

from __future__ import annotations

import pytest
from tests.data.recognition import tables

from regard.data.recognition.header import has_header

REVIEWS = [[row["Bewertung"], row["Urteil"]] for row in tables.reviews(60)]
RATED = [[str(row["id"]), row["note"], str(row["points"])] for row in tables.rated(60)]
NUMBERED = [[str(number), *row] for number, row in enumerate(REVIEWS)]


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (["text", "label"], REVIEWS),
        (["Bewertung", "Urteil"], REVIEWS),
        (["Was haben Sie erlebt?", "Urteil"], REVIEWS),
        (["nr", "what they wrote", "points given"], RATED),
        (["", "Bewertung", "Urteil"], NUMBERED),
        (["comment"], [row[:1] for row in REVIEWS]),
        (["spalte1"], [row[:1] for row in REVIEWS]),
    ],
)
def test_names_above_rows(header: list[str], rows: list[list[str]]) -> None:
    assert has_header(header, rows)


@pytest.mark.parametrize(
    "rows", [REVIEWS, RATED, NUMBERED, [row[:1] for row in REVIEWS], [[a, b] for b, a in REVIEWS]]
)
def test_every_row_is_recognised_as_a_row(rows: list[list[str]]) -> None:
    for first in range(0, len(rows), 7):
        assert not has_header(rows[first], rows[:first] + rows[first + 1 :])
