"""Columns that name an author or a document, and those whose values straddle splits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from regard.data.overlap.straddling import likely_group_columns, straddling_columns

ROWS = 600


def columns() -> dict[str, list[Any]]:
    generator = random.Random(0)
    return {
        "row_id": list(range(ROWS)),
        "writer": [f"writer {generator.randrange(60)}" for _ in range(ROWS)],
        "passage": [f"A long passage, number {i // 5}." for i in range(ROWS)],
        "patient_id": [generator.randrange(40) for _ in range(ROWS)],
        "stars": [generator.randrange(1, 40) for _ in range(ROWS)],
        "price": [round(generator.random() * 50) / 2 for _ in range(ROWS)],
        "genre": [generator.choice(["news", "fiction", "letters"]) for _ in range(ROWS)],
        "country": [f"country {generator.randrange(12)}" for _ in range(ROWS)],
        "date": [f"2024-05-{generator.randrange(1, 29):02}" for _ in range(ROWS)],
        "text": [f"text {i}" for i in range(ROWS)],
        "label": [f"class {generator.randrange(30)}" for _ in range(ROWS)],
        "document": [None] * ROWS,
        "source": ["web"] * (ROWS - 40) + [f"book {i // 2}" for i in range(40)],
        "tags": [["a", "b"]] * ROWS,
    }


def test_likely_groups_come_by_name_and_number_of_values() -> None:
    assert likely_group_columns(columns(), label="label") == ["passage", "writer", "patient_id"]


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_numbers_with_gaps_are_read_from_parquet_as_fractions(gap: float | None) -> None:
    """The author 12 is 12.0 in a file where any author is missing, and 12 in one where none is."""
    generator = random.Random(2)
    authors = [generator.randrange(40) for _ in range(ROWS)]
    labels = [author % 2 for author in authors]
    splits = ["train" if row < ROWS // 2 else "test" for row in range(ROWS)]
    mixed: list[Any] = [
        float(one) if split == "train" else one for one, split in zip(authors, splits, strict=True)
    ]
    mixed[3] = gap
    (found,) = straddling_columns({"user_id": mixed}, splits, labels)
    assert (found.rows, found.values) == (ROWS // 2, 40)
    assert found.accuracy == 1.0
    assert likely_group_columns({"user_id": [one + 0.5 for one in authors]}) == []


def test_the_label_by_another_name_is_no_group() -> None:
    table = columns()
    assert "label" in likely_group_columns(table)
    table["class_id"] = [int(label.split()[1]) for label in table["label"]]
    assert "class_id" not in likely_group_columns(table, label="label")


@pytest.mark.parametrize("numbers", [False, True])
def test_a_column_that_straddles_splits_and_predicts_the_label(numbers: bool) -> None:
    table = columns()
    generator = random.Random(1)
    splits = [generator.choice(["train", "train", "dev", "test"]) for _ in range(ROWS)]
    alike = [hash_of(writer) ^ (generator.random() < 0.1) for writer in table["writer"]]
    labels: list[Any] = [each + generator.random() / 2 for each in alike] if numbers else alike
    (found,) = straddling_columns(table, splits, labels)
    held_out = [i for i in range(ROWS) if splits[i] != "train"]
    trained = {table["writer"][i] for i in range(ROWS) if splits[i] == "train"}
    shared = [i for i in held_out if table["writer"][i] in trained]
    assert (found.column, found.rows, found.held_out_rows) == (
        "writer",
        len(shared),
        len(held_out),
    )
    assert found.values == len({table["writer"][i] for i in shared})
    assert found.accuracy is not None
    assert found.majority is not None
    assert found.accuracy > 0.8 > 0.65 > found.majority


def hash_of(writer: str) -> bool:
    return int(writer.split()[1]) * 7 % 13 < 6


def test_labels_that_do_not_depend_on_the_column() -> None:
    table = columns()
    generator = random.Random(1)
    splits = [generator.choice(["train", "test"]) for _ in range(ROWS)]
    labels = [generator.random() < 0.5 for _ in range(ROWS)]
    assert straddling_columns(table, splits, labels) == []


def test_one_text_of_a_pair_that_brings_its_label_along() -> None:
    """Test rows with a premise of training beside another hypothesis: too few rows for a group."""
    generator = random.Random(3)
    first = [f"premise number {row}" for row in range(500)]
    labels = [generator.choice(["yes", "no"]) for _ in first]
    first += [one.upper() + "!" for one in first[:60]]
    labels += labels[:60]
    splits = ["train"] * 500 + ["test"] * 60
    assert straddling_columns({"first": first}, splits, labels) == []
    (found,) = straddling_columns({"first": first}, splits, labels, inputs=["first"])
    assert (found.rows, found.accuracy) == (60, 1.0)
    other = [*labels[:500], *generator.choices(["yes", "no"], k=60)]
    assert straddling_columns({"first": first}, splits, other, inputs=["first"]) == []
    assert straddling_columns({"first": first}, splits, first, inputs=["first"]) == []


def test_without_labels_straddling_is_enough() -> None:
    table = {"passage": columns()["passage"]}
    whole = ["train" if i < 400 else "test" for i in range(ROWS)]
    assert straddling_columns(table, whole) == []
    divided = ["train" if i % 5 else "test" for i in range(ROWS)]
    (found,) = straddling_columns(table, divided)
    assert (found.values, found.rows, found.held_out_rows) == (120, 120, 120)
    assert (found.accuracy, found.majority) == (None, None)
