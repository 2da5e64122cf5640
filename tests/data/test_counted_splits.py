"""Splits given as a number of rows instead of a fraction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.data.test_record_corpus import COLUMNS, open_rows, write_table
from tests.data.text_files import write_lines

from regard.core.errors import UserError
from regard.core.settings import read_settings, to_table
from regard.data.corpus import SPLITS, Data, open_corpus


def test_splits_have_the_given_number_of_rows(tmp_path: Path) -> None:
    held_out = tmp_path / "t.csv"
    name = write_lines(tmp_path / "a.csv", "review,stars", *(f"text {i},1" for i in range(400)))
    write_lines(held_out, "review,stars", *(f"held_out {i},1" for i in range(101)))
    data = Data(corpus=name, dev=37, test=50)
    assert read_settings(Data, to_table(data)) == data
    corpus = open_corpus(data, COLUMNS)
    assert [len(corpus.rows(split)) for split in SPLITS] == [400 - 87, 37, 50]
    assert {"dev 37 of it", "test 50 of it"} <= set(corpus.describe().split(" · "))
    # A larger dev contains the smaller one: both are drawn by the same split points.
    more = open_rows(corpus=name, dev=60, test=50)
    assert {row["text"] for row in corpus.rows("dev")} < {row["text"] for row in more.rows("dev")}
    halved = open_rows(corpus=name, test=str(held_out), dev_from_test=50)
    assert [len(halved.rows(split)) for split in SPLITS] == [400, 50, 51]
    assert "dev 50 of test" in halved.describe()
    combined = open_rows(corpus=name, test=80, dev_from_test=30)
    assert [len(combined.rows(split)) for split in SPLITS] == [320, 30, 50]


def test_groups_are_not_divided_to_reach_a_number(tmp_path: Path) -> None:
    rows = [f"held_out {i // 3},1" for i in range(90)]
    corpus = open_rows(
        corpus=write_lines(tmp_path / "a.csv", "review,stars", *rows), dev=10, test=11
    )
    assert [len(corpus.rows(split)) for split in SPLITS] == [72, 9, 9]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dev": 300, "test": 100}, "data.dev and test: 400 records requested out of 400"),
        ({"dev": 0.1, "test": 400}, "data.test: 400 records requested out of 400"),
    ],
)
def test_more_rows_than_available_are_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        open_rows(corpus=write_table(tmp_path / "a.csv"), **settings).rows("dev")
