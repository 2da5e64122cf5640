"""The split: a function of seed and group alone, whatever the order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from regard.data.readers.records import Record
from regard.data.splits import SPLITS, Split, Splitter, as_text

GROUPS = st.lists(st.sampled_from([f"group {i}" for i in range(40)]), min_size=1, max_size=60)
SHARES = st.floats(0.01, 0.49)
NO_PARTS: frozenset[str] = frozenset()


def split(**changed: Any) -> Splitter:
    asked: dict[str, Any] = {
        "shares": {},
        "chosen": {},
        "group": None,
        "dev_from_test": None,
        "seed": 0,
        "texts": ("text",),
    }
    return Splitter(**(asked | changed))


def part_of(cut: Splitter, values: dict[str, Any], role: Split = "train") -> Split | None:
    return cut.part_of(Record(values), role=role, own=NO_PARTS)


@given(GROUPS, SHARES, SHARES, st.integers(0, 9))
def test_one_group_falls_into_one_part_in_any_order(
    groups: list[str], dev: float, test: float, seed: int
) -> None:
    def parts(order: list[str]) -> dict[str, set[Split | None]]:
        cut = split(shares={"dev": dev, "test": test}, group="title", seed=seed)
        found: dict[str, set[Split | None]] = {}
        for number, group in enumerate(order):
            values = {"text": f"text {number}", "data.group": group}
            found.setdefault(group, set()).add(part_of(cut, values))
        return found

    forwards = parts(groups)
    assert all(len(these) == 1 and these <= set(SPLITS) for these in forwards.values())
    assert forwards == parts(groups[::-1])


@given(GROUPS, SHARES, st.floats(0.01, 0.99))
def test_dev_from_test_moves_nothing_but_test_rows(
    texts: list[str], test: float, share: float
) -> None:
    before, after = split(shares={"test": test}), split(shares={"test": test}, dev_from_test=share)
    for text in texts:
        was, now = part_of(before, {"text": text}), part_of(after, {"text": text})
        assert (was, now) in {("train", "train"), ("test", "test"), ("test", "dev")}


@given(SHARES, SHARES, SHARES)
def test_a_larger_share_keeps_what_a_smaller_one_had(dev: float, more: float, test: float) -> None:
    small = split(shares={"dev": min(dev, more), "test": test})
    large = split(shares={"dev": max(dev, more), "test": test})
    for number in range(50):
        values = {"text": f"text {number}"}
        if part_of(small, dict(values)) == "dev":
            assert part_of(large, dict(values)) == "dev"


def test_the_group_is_the_column_then_the_source_then_the_texts() -> None:
    cut = split(texts=("first", "second"), group="title")
    record = Record({"first": "a", "second": ["b", "c"], "label": 1}, group="g")
    assert cut.group_of(record) == "g"
    assert cut.group_of(Record(record)) == 'a\0["b", "c"]'
    assert cut.group_of(Record({**record, "data.group": "title"}, group="g")) == "title"
    assert cut.group_of(Record({**record, "data.group": " "}, group="g")) == "g"


def test_values_as_they_are_written() -> None:
    assert [as_text(value) for value in ("a", 1, True, None, 2.5)] == ["a", "1", "true", "", "2.5"]
