"""The split depends only on seed and group, not on the order of records."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from regard.data.readers.records import Record
from regard.data.splits import SPLITS, Split, Splitter, as_text

GROUPS = st.lists(st.sampled_from([f"group {i}" for i in range(40)]), min_size=1, max_size=60)
FRACTIONS = st.floats(0.01, 0.49)
NONE_PREDEFINED: frozenset[str] = frozenset()


def build_splitter(**changes: Any) -> Splitter:
    defaults: dict[str, Any] = {
        "fractions": {},
        "by_value": {},
        "group": None,
        "dev_from_test": None,
        "seed": 0,
        "texts": ("text",),
    }
    return Splitter(**(defaults | changes))


def split_of(splitter: Splitter, values: dict[str, Any], role: Split = "train") -> Split | None:
    return splitter.split_of(Record(values), role=role, predefined=NONE_PREDEFINED)


@given(GROUPS, FRACTIONS, FRACTIONS, st.integers(0, 9))
def test_group_falls_into_one_split_in_any_order(
    groups: list[str], dev: float, test: float, seed: int
) -> None:
    def splits(order: list[str]) -> dict[str, set[Split | None]]:
        splitter = build_splitter(fractions={"dev": dev, "test": test}, group="title", seed=seed)
        found: dict[str, set[Split | None]] = {}
        for number, group in enumerate(order):
            values = {"text": f"text {number}", "data.group": group}
            found.setdefault(group, set()).add(split_of(splitter, values))
        return found

    forwards = splits(groups)
    assert all(len(found) == 1 and found <= set(SPLITS) for found in forwards.values())
    assert forwards == splits(groups[::-1])


@given(GROUPS, FRACTIONS, st.floats(0.01, 0.99))
def test_dev_from_test_moves_only_test_rows(texts: list[str], test: float, fraction: float) -> None:
    before, after = (
        build_splitter(fractions={"test": test}),
        build_splitter(fractions={"test": test}, dev_from_test=fraction),
    )
    for text in texts:
        old, new = split_of(before, {"text": text}), split_of(after, {"text": text})
        assert (old, new) in {("train", "train"), ("test", "test"), ("test", "dev")}


@given(FRACTIONS, FRACTIONS, FRACTIONS)
def test_larger_fraction_keeps_the_records_of_a_smaller_one(
    dev: float, more: float, test: float
) -> None:
    small = build_splitter(fractions={"dev": min(dev, more), "test": test})
    large = build_splitter(fractions={"dev": max(dev, more), "test": test})
    for number in range(50):
        values = {"text": f"text {number}"}
        if split_of(small, dict(values)) == "dev":
            assert split_of(large, dict(values)) == "dev"


def test_group_key_is_the_column_else_the_source_group_else_the_texts() -> None:
    splitter = build_splitter(texts=("first", "second"), group="title")
    record = Record({"first": "a", "second": ["b", "c"], "label": 1}, group="g")
    assert splitter.group_key(record) == "g"
    assert splitter.group_key(Record(record)) == 'a\0["b", "c"]'
    assert splitter.group_key(Record({**record, "data.group": "title"}, group="g")) == "title"
    assert splitter.group_key(Record({**record, "data.group": " "}, group="g")) == "g"


def test_values_as_text() -> None:
    assert [as_text(value) for value in ("a", 1, True, None, 2.5)] == ["a", "1", "true", "", "2.5"]
    of_parquet = (12.0, float("nan"), float("inf"))
    assert [as_text(value) for value in of_parquet] == ["12", "", "Infinity"]
