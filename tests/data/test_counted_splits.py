"""Parts that are a number of rows instead of a share of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.data.test_record_corpus import COLUMNS, opened, put, table

from regard.core.errors import UserError
from regard.core.settings import read_settings, to_table
from regard.data.corpus import SPLITS, Data
from regard.data.record_corpus import open_records


def test_parts_of_so_many_rows(tmp_path: Path) -> None:
    judged = tmp_path / "t.csv"
    name = put(tmp_path / "a.csv", "review,stars", *(f"read {i},1" for i in range(400)))
    put(judged, "review,stars", *(f"judged {i},1" for i in range(101)))
    data = Data(corpus=name, dev=37, test=50)
    assert read_settings(Data, to_table(data)) == data
    corpus = open_records(data, COLUMNS)
    assert [len(corpus.rows(part)) for part in SPLITS] == [400 - 87, 37, 50]
    assert "dev 37 of it · test 50 of it" in corpus.describe()
    # More of them are the same ones and others, and a share is cut by the same places.
    more = opened(corpus=name, dev=60, test=50)
    assert {row["text"] for row in corpus.rows("dev")} < {row["text"] for row in more.rows("dev")}
    halved = opened(corpus=name, test=str(judged), dev_from_test=50)
    assert [len(halved.rows(part)) for part in SPLITS] == [400, 50, 51]
    assert "dev 50 of test" in halved.describe()
    both = opened(corpus=name, test=80, dev_from_test=30)
    assert [len(both.rows(part)) for part in SPLITS] == [320, 30, 50]


def test_a_group_is_not_parted_to_make_up_a_number(tmp_path: Path) -> None:
    rows = [f"judged {i // 3},1" for i in range(90)]
    corpus = opened(corpus=put(tmp_path / "a.csv", "review,stars", *rows), dev=10, test=11)
    assert [len(corpus.rows(part)) for part in SPLITS] == [72, 9, 9]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"dev": 300, "test": 100}, "data.dev and test: 400 records are asked for out of 400"),
        ({"dev": 0.1, "test": 400}, "data.test: 400 records are asked for out of 400"),
    ],
)
def test_more_than_there_are(tmp_path: Path, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        opened(corpus=table(tmp_path / "a.csv"), **settings).rows("dev")
