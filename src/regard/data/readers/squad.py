"""Reader of SQuAD's layout: questions about passages in one JSON document per file.

    { "data": [ { "title", "paragraphs": [ { "context", "qas": [ { "question", "id",
        "answers": [ { "text", "answer_start" } ], "is_impossible" } ] } ] } ] }

A record is a question. In files without `is_impossible` (SQuAD 1.1, XQuAD) every question has an
answer.
Rajpurkar, Jia and Liang, 2018, "Know What You Don't Know: Unanswerable Questions for SQuAD".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regard.core.errors import UserError
from regard.data.readers.records import SKIP_HINT, RawRow, Record, RecordReader, json_type

COLUMNS = ("title", "context", "question", "answers", "answer_starts", "id", "impossible")


def squad_articles(document: Mapping[str, Any] | None) -> list[Any] | None:
    """The list under `data` if a JSON document has SQuAD's layout, else None."""
    articles = document.get("data") if document else None
    if not isinstance(articles, list) or not articles:
        return None
    first_article = articles[0]
    return articles if isinstance(first_article, dict) and "paragraphs" in first_article else None


def read_squad(articles: list[Any], reader: RecordReader) -> Iterator[Record]:
    """One record per question, with the columns `COLUMNS`."""
    names = reader.match_columns(COLUMNS)
    rows = (
        RawRow(at, {role: question[name] for role, name in names.items()})
        for at, question in _questions(articles, reader)
    )
    yield from reader.records(rows)


def _questions(articles: list[Any], reader: RecordReader) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, article in enumerate(articles, start=1):
        at = f"article {number:,}"
        title = _field(article, "title", str, reader, at=at, default="")
        for index, paragraph in enumerate(_field(article, "paragraphs", list, reader, at=at), 1):
            at = f"article {number:,}, paragraph {index:,}"
            context = _field(paragraph, "context", str, reader, at=at)
            for count, qa in enumerate(_field(paragraph, "qas", list, reader, at=at), 1):
                at = f"article {number:,}, paragraph {index:,}, question {count:,}"
                try:
                    question = _parse_question(qa, reader, at=at)
                except UserError as problem:
                    reader.drop_bad(problem)
                    continue
                yield at, {"title": title, "context": context, **question}


def _parse_question(qa: Any, reader: RecordReader, *, at: str) -> dict[str, Any]:
    impossible = _field(qa, "is_impossible", bool, reader, at=at, default=False)
    answers = _field(qa, "answers", list, reader, at=at, default=[])
    if not answers and not impossible:
        raise reader.error(
            "no answer, yet not is_impossible", at=at, hint=f"{SKIP_HINT}, or give it."
        )
    return {
        "question": _field(qa, "question", str, reader, at=at),
        "answers": [_field(answer, "text", str, reader, at=at) for answer in answers],
        "answer_starts": [_field(answer, "answer_start", int, reader, at=at) for answer in answers],
        "id": str(qa.get("id", at)),
        "impossible": impossible,
    }


def _field(
    found: Any, key: str, expected: type[Any], reader: RecordReader, *, at: str, default: Any = None
) -> Any:
    """The value of a key; another type than `expected` is an error."""
    if not isinstance(found, dict):
        what = f"a JSON {json_type(found)} where an object is needed"
    else:
        value = found.get(key, default)
        if type(value) is expected:
            return value
        what = f"no {key!r}" if value is None else f"{key!r} holds a {json_type(value)}"
    hint = f"{SKIP_HINT}, or write the file as SQuAD does: data > paragraphs > qas."
    raise reader.error(what, at=at, hint=hint)
