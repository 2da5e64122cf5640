"""The document collection of a search, and its relevance judgements (qrels).

collection   one row a document: an id and its text
judgements   one line a judged pair: `query document grade`, or in TREC's format
             `query 0 document grade`; a grade of 0 or less is not relevant
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.core.errors import UserError
from regard.data.corpus import Corpus, Data, open_corpus
from regard.data.readers.lines import read_lines
from regard.data.sources import SourceIdentity, size_and_sha256

Grades = Mapping[str, float]
"Relevance grades, by document id."


@dataclass(frozen=True)
class Collection:
    """Documents, each with an id."""

    ids: Sequence[str]
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Collection:
        """The distinct texts, each its own id."""
        distinct = list(dict.fromkeys(texts))
        return cls(distinct, distinct)

    @cached_property
    def index_by_id(self) -> Mapping[str, int]:
        """Index of each document, by id."""
        return {document: index for index, document in enumerate(self.ids)}

    @cached_property
    def index_by_text(self) -> Mapping[str, int]:
        """Index of each document, by text; of documents with equal texts, the first."""
        backwards = zip(reversed(self.texts), reversed(range(len(self))), strict=True)
        return {text.strip(): index for text, index in backwards}

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for document, text in zip(self.ids, self.texts, strict=True):
            digest.update(f"{len(document)} {len(text)} {document}{text}".encode())
        return digest.hexdigest()


def open_collection(source: str, *, id_column: str, text_column: str) -> Corpus:
    """The rows of a built-in set, a file or a glob pattern."""
    columns = {"collection_text": text_column, "collection_id": id_column}
    return open_corpus(Data(corpus=source), columns)


def read_collection(source: str, *, id_column: str, text_column: str) -> Collection:
    """All documents of a table; a duplicate id is refused."""
    rows: dict[str, str] = {}  # row of each id
    texts = []
    collection = open_collection(source, id_column=id_column, text_column=text_column)
    for record in collection.all_records():
        document = str(record["collection_id"]).strip()
        if document in rows:
            raise record.error(
                f"document {document!r} is there twice; it also is {rows[document]}",
                hint="Give every document its own id, or set task.collection_id.",
            )
        rows[document] = record.at
        texts.append(record["collection_text"])
    return Collection(list(rows), texts)


def read_judgements(files: Sequence[str]) -> dict[str, Grades]:
    """The grades of each query's judged documents, by query."""
    judged: dict[str, dict[str, float]] = {}
    for file in files:
        for number, line in enumerate(read_lines(Path(file)), start=1):
            if not line.strip():
                continue
            where = f"{file}, line {number:,}"
            judgement = _parse_judgement(line, where, is_first=number == 1)
            if judgement is None:
                continue
            query, document, grade = judgement
            previous = judged.setdefault(query, {}).setdefault(document, grade)
            if previous != grade:
                raise UserError(
                    f"document {document} of query {query} is judged {previous:g} and {grade:g}",
                    topic="data",
                    where=where,
                    hint="Keep one of the two.",
                )
    return {query: dict(grades) for query, grades in judged.items()}


def judgement_identities(files: Sequence[str]) -> Iterator[SourceIdentity]:
    """Size and hash of each file, so that edits are detected."""
    return (SourceIdentity(Path(file).name, *size_and_sha256(Path(file))) for file in files)


def _parse_judgement(line: str, where: str, *, is_first: bool) -> tuple[str, str, float] | None:
    """Query, document and grade; None for a header."""
    fields = line.split("\t") if line.count("\t") in (2, 3) else line.split()
    if len(fields) in (3, 4):
        query, *_, document, grade = map(str.strip, fields)
        try:
            value = float(grade)
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            return query, document, value
        if is_first:
            return None
    raise UserError(
        f"{line.strip()[:60]!r} is no judgement",
        topic="data",
        where=where,
        hint="Write `query document grade`, or in TREC's format `query 0 document grade`.",
    )
