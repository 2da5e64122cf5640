"""Questions about passages in SQuAD's layout: one JSON document a file, not one object a line.

    { "data": [ { "title", "paragraphs": [ { "context", "qas": [ { "question", "id",
        "answers": [ { "text", "answer_start" } ], "is_impossible" } ] } ] } ] }

A record is a question. Files without `is_impossible` (SQuAD 1.1, XQuAD) have answers to all.
Rajpurkar, Jia and Liang, 2018, "Know What You Don't Know: Unanswerable Questions for SQuAD".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.data.readers.compression import compression_of
from regard.data.readers.lines import lines
from regard.data.readers.reading import SKIP, RawRow, Record, RecordReader, sort_of

COLUMNS = ("title", "context", "question", "answers", "answer_starts", "id", "impossible")


def articles_of(path: Path) -> list[Any] | None:
    """What stands under `data` where a file named .json is such a document; else nothing."""
    plain = path.with_suffix("") if compression_of(path) else path
    if plain.suffix.lower() != ".json":
        return None
    rest = lines(path)
    first = next((line for line in rest if line.strip()), "")
    if not first.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(first)
    except (ValueError, RecursionError):
        # Not one object a line: perhaps one over many lines. A broken line is told by its reader.
        try:
            found = json.loads("\n".join([first, *rest]))
        except (ValueError, RecursionError):
            return None
    articles = found.get("data") if isinstance(found, dict) else None
    if not isinstance(articles, list) or not articles:
        return None
    first_article = articles[0]
    return articles if isinstance(first_article, dict) and "paragraphs" in first_article else None


def read_squad(articles: list[Any], visit: RecordReader) -> Iterator[Record]:
    """A record for each question, with the columns above."""
    names = visit.found(COLUMNS)
    rows = (
        RawRow(at, {role: question[name] for role, name in names.items()})
        for at, question in _questions(articles, visit)
    )
    yield from visit.records(rows)


def _questions(articles: list[Any], visit: RecordReader) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, article in enumerate(articles, start=1):
        at = f"article {number:,}"
        title = _field(article, "title", str, visit, at=at, default="")
        for place, paragraph in enumerate(_field(article, "paragraphs", list, visit, at=at), 1):
            at = f"article {number:,}, paragraph {place:,}"
            context = _field(paragraph, "context", str, visit, at=at)
            for count, asked in enumerate(_field(paragraph, "qas", list, visit, at=at), 1):
                at = f"article {number:,}, paragraph {place:,}, question {count:,}"
                try:
                    question = _question(asked, visit, at=at)
                except UserError as problem:
                    visit.bad(problem)
                    continue
                yield at, {"title": title, "context": context, **question}


def _question(asked: Any, visit: RecordReader, *, at: str) -> dict[str, Any]:
    impossible = _field(asked, "is_impossible", bool, visit, at=at, default=False)
    answers = _field(asked, "answers", list, visit, at=at, default=[])
    if not answers and not impossible:
        raise visit.complain("no answer, yet not is_impossible", at=at, hint=f"{SKIP}, or give it.")
    return {
        "question": _field(asked, "question", str, visit, at=at),
        "answers": [_field(answer, "text", str, visit, at=at) for answer in answers],
        "answer_starts": [_field(answer, "answer_start", int, visit, at=at) for answer in answers],
        "id": str(asked.get("id", at)),
        "impossible": impossible,
    }


def _field(
    found: Any, key: str, sort: type[Any], visit: RecordReader, *, at: str, default: Any = None
) -> Any:
    """What stands under a key, of the sort it has to be."""
    if not isinstance(found, dict):
        what = f"a JSON {sort_of(found)} where an object is needed"
    else:
        value = found.get(key, default)
        if type(value) is sort:
            return value
        what = f"no {key!r}" if value is None else f"{key!r} holds a {sort_of(value)}"
    hint = f"{SKIP}, or write the file as SQuAD does: data > paragraphs > qas."
    raise visit.complain(what, at=at, hint=hint)
