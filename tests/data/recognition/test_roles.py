"""The reading of a table follows from its content; names decide where content does not."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.recognition import tables

from regard.data.recognition.profile import profile_column
from regard.data.recognition.reading import LANGUAGE_MODEL, Reading, rivals
from regard.data.recognition.roles import find_readings


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def best(rows: list[dict[str, Any]]) -> Reading:
    return find_readings(columns(rows))[0]


TABLES = {
    "classification": (tables.reviews(), {"text": "Bewertung", "label": "Urteil"}),
    "regression": (tables.rated(), {"text": "note", "score": "points"}),
    "pairs": (
        tables.pairs(),
        {"first": "sentence1", "second": "sentence2", "label": "gold_label"},
    ),
    "extractive": (
        tables.questions(),
        {"context": "passage", "question": "query", "answers": "answer"},
    ),
    "translation": (tables.translations(), {"source": "x", "target": "y"}),
    "summarisation": (tables.summaries(), {"document": "story", "summary": "gist"}),
}


@pytest.mark.parametrize("task", TABLES)
def test_each_task_is_recognised_by_content(task: str) -> None:
    rows, roles = TABLES[task]
    reading = best(rows)
    assert (reading.task, reading.columns) == (task, roles)


@pytest.mark.parametrize("task", ["classification", "regression", "extractive", "summarisation"])
def test_names_are_not_needed(task: str) -> None:
    rows, roles = TABLES[task]
    numbered = {name: str(number) for number, name in enumerate(rows[0], start=1)}
    renamed = [{numbered[name]: value for name, value in row.items()} for row in rows]
    reading = best(renamed)
    assert reading.task == task
    assert reading.columns == {role: numbered[name] for role, name in roles.items()}


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([*TABLES]))
def test_the_order_of_the_rows_does_not_matter(random: random.Random, task: str) -> None:
    rows, _ = TABLES[task]
    shuffled = random.sample(rows, len(rows))
    assert best(shuffled) == best(rows)


def test_a_score_of_two_texts_is_their_similarity_with_its_range() -> None:
    generator = random.Random(0)
    rows = [
        {"a": row["sentence1"], "b": row["sentence2"], "c": round(generator.uniform(0, 4.9), 1)}
        for row in tables.pairs()
    ]
    reading = best(rows)
    assert (reading.task, reading.target) == ("similarity", "c")
    assert reading.settings == {"min_score": 0.0, "max_score": 5.0}


def test_lists_of_words_and_of_as_many_tags() -> None:
    rows = [
        {"id": n, "w": row["Bewertung"].split(), "t": [n % 3 for _ in row["Bewertung"].split()]}
        for n, row in enumerate(tables.reviews())
    ]
    reading = best(rows)
    assert (reading.task, reading.inputs, reading.target) == ("tagging", ("w",), "t")


def test_one_column_is_text_to_continue() -> None:
    rows = [{"comment": row["Bewertung"]} for row in tables.reviews()]
    [reading] = find_readings(columns(rows))
    assert (reading.task, reading.inputs, reading.target) == (LANGUAGE_MODEL, ("comment",), None)


def test_stars_may_be_classes_or_a_number_and_both_are_offered() -> None:
    rows = [
        {"review": row["note"], "stars": min(5, max(1, round(row["points"])))}
        for row in tables.rated()
    ]
    offered = rivals(find_readings(columns(rows)))
    assert {reading.task for reading in offered} == {"classification", "regression"}


def test_two_unnamed_labels_are_equally_likely() -> None:
    rows = [
        {"c1": row["Bewertung"], "c2": row["Urteil"], "c3": "ab"[number % 2]}
        for number, row in enumerate(tables.reviews())
    ]
    first, second, *_ = find_readings(columns(rows))
    assert first.score == second.score
    assert {first.target, second.target} == {"c2", "c3"}


KINDS = {
    "index": [*range(50)],
    "id": [f"a{number:04}" for number in range(50)],
    "label": ["yes", "no"] * 25,
    "number": [number / 7 for number in range(50)],
    "date": ["2024-01-02", "2024-02-03"] * 25,
    "constant": ["web"] * 50,
    "empty": ["", None] * 25,
    "category": [f"writer {number % 25}" for number in range(100)],
    "text": [f"the {number} men saw it, and so did we" for number in range(50)],
    "texts": [[f"the {number} men saw it", "and so did we"] for number in range(50)],
    "sequence": [[0.1, 0.2], [0.3]] * 25,
    "other": [{"a": 1}, {"b": 2}] * 25,
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_columns(kind: str) -> None:
    assert profile_column("c", KINDS[kind]).kind == kind


@given(st.lists(st.sampled_from(["yes", "no", "", None]), min_size=1, max_size=40))
def test_a_profile_counts_every_row_once(values: list[str | None]) -> None:
    profile = profile_column("c", values)
    assert profile.rows == len(values)
    assert profile.filled == sum(bool(value) for value in values)
    assert profile.counts.total() in (0, profile.filled)


@pytest.mark.parametrize("values", [["0012", "0345", "0678"] * 10, ["0001", "0002"] * 20])
def test_leading_zeros_are_no_quantity(values: list[str]) -> None:
    assert profile_column("c", values).kind not in ("number", "index", "label")
