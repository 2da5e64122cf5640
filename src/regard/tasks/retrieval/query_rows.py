"""Queries as rows have them: with one document each, with several, or several rows for one query.

A row's document is relevant unless a grade of 0 or less says otherwise. A list of documents has one
grade for all, or a list of as many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.core.errors import UserError
from regard.data.record_corpus import Record


def graded_documents(record: Record) -> list[tuple[str, float]]:
    """Text and grade of each document that a row holds; the highest grade of one that is twice."""
    given = record.get("document") or []
    texts = [text for text in ([given] if isinstance(given, str) else given) if text.strip()]
    best: dict[str, float] = {}
    for text, grade in zip(texts, _grades(record, len(texts)), strict=True):
        best[text] = max(grade, best.get(text, grade))
    return list(best.items())


def join_rows(rows: Sequence[Record]) -> list[Record]:
    """One record for each query, where its first row stands; by its id, or by its words."""
    together: dict[str, list[Record]] = {}
    for row in rows:
        together.setdefault(_query(row), []).append(row)
    return [several[0] if len(several) == 1 else _joined(several) for several in together.values()]


def _query(row: Record) -> str:
    if named := str(row.get("query_id", "")).strip():
        return f"id {named}"
    return f"query {row['query'].strip()}"


def _joined(rows: Sequence[Record]) -> Record:
    first = rows[0]
    graded = [one for row in rows for one in graded_documents(row)]
    joined = Record(first, first.at, first.group, first.split)
    if graded:
        joined["document"] = [text for text, _ in graded]
        joined["relevance"] = [grade for _, grade in graded]
    return joined


def _grades(record: Record, documents: int) -> list[float]:
    given = record.get("relevance", 1.0)
    if not isinstance(given, list):
        return [_grade(given, record)] * documents
    if len(given) != documents:
        raise UserError(
            f"{documents} documents and {len(given)} grades",
            topic="data",
            where=record.at,
            hint="Give each document a grade, or one grade for all.",
        )
    return [_grade(one, record) for one in given]


def _grade(given: Any, record: Record) -> float:
    try:
        grade = float(given)
    except (TypeError, ValueError):
        grade = math.nan
    if not math.isfinite(grade):
        raise UserError(
            f"the grade {given!r} is no number",
            topic="data",
            where=record.at,
            hint="Give 0 or less for what is not relevant, more for what is, "
            "or set task.relevance to its column.",
        )
    return grade
