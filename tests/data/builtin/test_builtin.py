"""Every built-in set that regard makes itself: as declared, the same everywhere, cleanly cut."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from regard.data.builtin import BUILTIN
from regard.data.builtin.generated import assign_splits, rows_identity, word_list

MADE = [entry.name for entry in BUILTIN if entry.properties["generated"]]
RECORDS = [name for name in MADE if "columns" in BUILTIN.get(name).properties]
CUT = [name for name in [*RECORDS, "digits"] if name != "lookup-notes"]
IDENTITIES = (
    "from regard.data.builtin import BUILTIN\n"
    "print([BUILTIN.get(name).properties['identity']() for name in %r])"
)


def rows(name: str) -> list[dict]:
    return list(BUILTIN.get(name).part())


def test_the_sets_of_the_specification_are_there() -> None:
    assert {"biographies", "birthplaces", "passages", "opinions", "statements"} <= set(MADE)
    assert {"phrases", "headlines", "lookups", "lookup-notes"} <= set(MADE)
    real = {entry.name for entry in BUILTIN if not entry.properties["generated"]}
    assert {"python-docs", "digits", "movie-reviews", "verses"} <= real


def test_another_process_makes_the_same() -> None:
    ours = [BUILTIN.get(name).properties["identity"]() for name in MADE]
    told = subprocess.run(
        [sys.executable, "-c", IDENTITIES % MADE],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    ).stdout
    assert told.strip() == str(ours)
    assert len({digest for _, _, digest in ours}) == len(ours)


@pytest.mark.parametrize("name", [*RECORDS, "digits"])
def test_rows_have_the_columns_they_declare(name: str) -> None:
    columns = set(BUILTIN.get(name).properties["columns"])
    for row in rows(name):
        assert row.keys() - {"part", "group"} == columns
        assert all(row[column] != "" for column in columns)


@pytest.mark.parametrize("name", CUT)
def test_parts_share_no_group_and_no_row(name: str) -> None:
    columns = BUILTIN.get(name).properties["columns"]
    homes = defaultdict(set)
    for row in rows(name):
        homes[repr([row[column] for column in columns])].add(row["part"])
        homes[f"group {row.get('group', repr(row))}"].add(row["part"])
    assert all(len(parts) == 1 for parts in homes.values())


@pytest.mark.parametrize("name", CUT)
def test_the_first_rows_hold_every_part(name: str) -> None:
    # data.limit reads the beginning alone
    counts = Counter(row["part"] for row in rows(name)[:400])
    assert set(counts) == {"train", "dev", "test"}
    assert counts.most_common(1)[0][0] == "train"


def test_a_row_given_away_can_be_changed() -> None:
    rows("opinions")[0]["text"] = "changed"
    assert rows("opinions")[0]["text"] != "changed"


def test_identity_follows_the_rows() -> None:
    one = rows_identity("x", lambda: [{"a": 1}])()
    assert one == rows_identity("x", lambda: [{"a": 1}])()
    assert one[2] != rows_identity("x", lambda: [{"a": 2}])()[2]
    assert one[1] == len('{"a": 1}\n')


def test_parts_must_hold_every_item() -> None:
    from random import Random

    sizes = {"train": 2, "test": 1}
    assert Counter(part for part, _ in assign_splits("abc", sizes, Random(0))) == sizes
    assert [item for _, item in assign_splits("abc", sizes, Random(0))] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="zip"):
        list(assign_splits("abcd", sizes, Random(0)))
    assert word_list("a  b\n c") == ("a", "b", "c")
