"""Queries with their documents: one a row, a list of them, or several rows a query.

A row's document is relevant unless its grade is 0 or less. A list of documents has one grade for
all, or a list of grades of the same length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.data.record_corpus import Record


def graded_documents(record: Record) -> list[tuple[str, float]]:
    """Text and grade of each document of a row; a duplicate counts with its highest grade."""
    value = record.get("document") or []
    texts = [text for text in ([value] if isinstance(value, str) else value) if text.strip()]
    grades: dict[str, float] = {}
    for text, grade in zip(texts, _grades(record, len(texts)), strict=True):
        grades[text] = max(grade, grades.get(text, grade))
    return list(grades.items())


def join_rows(rows: Sequence[Record]) -> list[Record]:
    """One record a query, in the order of their first rows; queries are equal by id, or by text."""
    groups: dict[str, list[Record]] = {}
    for row in rows:
        groups.setdefault(_query_key(row), []).append(row)
    return [group[0] if len(group) == 1 else _join(group) for group in groups.values()]


def _query_key(row: Record) -> str:
    if query_id := str(row.get("query_id", "")).strip():
        return f"id {query_id}"
    return f"query {row['query'].strip()}"


def _join(rows: Sequence[Record]) -> Record:
    first = rows[0]
    graded = [document for row in rows for document in graded_documents(row)]
    joined = Record(first, first.at, first.group, first.split)
    if graded:
        joined["document"] = [text for text, _ in graded]
        joined["relevance"] = [grade for _, grade in graded]
    return joined


def _grades(record: Record, documents: int) -> list[float]:
    value = record.get("relevance", 1.0)
    if not isinstance(value, list):
        return [_parse_grade(value, record)] * documents
    if len(value) != documents:
        raise record.error(
            f"{documents} documents and {len(value)} grades",
            hint="Give each document a grade, or one grade for all.",
        )
    return [_parse_grade(grade, record) for grade in value]


def _parse_grade(value: Any, record: Record) -> float:
    try:
        grade = float(value)
    except (TypeError, ValueError):
        grade = math.nan
    if not math.isfinite(grade):
        raise record.error(
            f"the grade {value!r} is no number",
            hint="Give 0 or less to documents that are not relevant, more to relevant ones, "
            "or set task.relevance to its column.",
        )
    return grade
