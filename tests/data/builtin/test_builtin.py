"""Built-in generated sets: columns as declared, reproducible, splits disjoint."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from regard.core.catalog import Entry
from regard.data.builtin import BUILTIN, content_identity, read_rows
from regard.data.builtin.generated import assign_splits, word_list
from regard.data.corpus import Data, open_corpus

GENERATED = [entry.name for entry in BUILTIN if entry.properties["generated"]]
RECORDS = [name for name in GENERATED if "columns" in BUILTIN.get(name).properties]
WITH_SPLITS = [name for name in [*RECORDS, "digits"] if name != "lookup-notes"]
IDENTITIES = (
    "from regard.data.builtin import BUILTIN, content_identity\n"
    "print([content_identity(BUILTIN.get(name)) for name in %r])"
)


def rows(name: str) -> list[dict]:
    return list(read_rows(BUILTIN.get(name)))


def test_specified_sets_exist() -> None:
    assert {"biographies", "birthplaces", "passages", "opinions", "statements"} <= set(GENERATED)
    assert {"phrases", "headlines", "lookups", "lookup-notes"} <= set(GENERATED)
    real = {entry.name for entry in BUILTIN if not entry.properties["generated"]}
    assert {"python-docs", "digits", "movie-reviews", "verses"} <= real


def test_another_process_generates_the_same() -> None:
    ours = [content_identity(BUILTIN.get(name)) for name in GENERATED]
    printed = subprocess.run(
        [sys.executable, "-c", IDENTITIES % GENERATED],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    ).stdout
    assert printed.strip() == str(ours)
    assert len({digest for _, digest in ours}) == len(ours)


@pytest.mark.parametrize("name", [*RECORDS, "digits"])
def test_rows_have_the_declared_columns(name: str) -> None:
    columns = set(BUILTIN.get(name).properties["columns"])
    for row in rows(name):
        assert row.keys() - {"split", "group"} == columns
        assert all(row[column] != "" for column in columns)


@pytest.mark.parametrize("name", WITH_SPLITS)
def test_splits_share_no_group_and_no_row(name: str) -> None:
    columns = BUILTIN.get(name).properties["columns"]
    found = defaultdict(set)
    for row in rows(name):
        found[repr([row[column] for column in columns])].add(row["split"])
        found[f"group {row.get('group', repr(row))}"].add(row["split"])
    assert all(len(splits) == 1 for splits in found.values())


@pytest.mark.parametrize("name", WITH_SPLITS)
def test_first_rows_contain_every_split(name: str) -> None:
    # data.limit reads only the first rows
    counts = Counter(row["split"] for row in rows(name)[:400])
    assert set(counts) == {"train", "dev", "test"}
    assert counts.most_common(1)[0][0] == "train"


def test_records_of_a_corpus_are_copies() -> None:
    data, columns = Data(corpus="opinions"), {"text": "text", "label": "label"}
    open_corpus(data, columns).rows("dev")[0]["text"] = "changed"
    assert open_corpus(data, columns).rows("dev")[0]["text"] != "changed"


def test_identity_depends_on_the_rows() -> None:
    def identity(value: int) -> tuple[int, str]:
        return content_identity(Entry("corpus", "x", lambda: [{"text": value}]))

    assert identity(1) == identity(1)
    assert identity(1)[1] != identity(2)[1]
    assert identity(1)[0] == len('{"text": 1}\n')


def test_split_sizes_must_cover_every_item() -> None:
    from random import Random

    sizes = {"train": 2, "test": 1}
    assert Counter(split for split, _ in assign_splits("abc", sizes, Random(0))) == sizes
    assert [item for _, item in assign_splits("abc", sizes, Random(0))] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="zip"):
        list(assign_splits("abcd", sizes, Random(0)))
    assert word_list("a  b\n c") == ("a", "b", "c")
