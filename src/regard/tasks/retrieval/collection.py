"""What a search looks through, and the judgements that say which of it answers a query.

collection   one row for each document: an id and its text
judgements   one line for each judged pair: `query document grade`, or as TREC writes it,
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
from regard.data.corpus import Data
from regard.data.readers.lines import read_lines
from regard.data.record_corpus import RecordCorpus, open_records
from regard.data.sources import SourceIdentity, size_and_sha256

Grades = Mapping[str, float]
"How relevant documents are, by name."


@dataclass(frozen=True)
class Collection:
    """Documents with a name each."""

    names: Sequence[str]
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Collection:
        """Texts that are their own names, each once."""
        distinct = list(dict.fromkeys(texts))
        return cls(distinct, distinct)

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Where the document of a name stands."""
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def index_by_text(self) -> Mapping[str, int]:
        """Where a text stands; of documents that say the same, the first."""
        backwards = zip(reversed(self.texts), reversed(range(len(self))), strict=True)
        return {text.strip(): number for text, number in backwards}

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, text in zip(self.names, self.texts, strict=True):
            digest.update(f"{len(name)} {len(text)} {name}{text}".encode())
        return digest.hexdigest()


def open_collection(source: str, *, name: str, text: str) -> RecordCorpus:
    """A built-in set, a file or a pattern, whose columns `name` and `text` are asked for."""
    columns = {"collection_text": text, "collection_id": name}
    return open_records(Data(corpus=source), columns)


def read_collection(source: str, *, name: str, text: str) -> Collection:
    """All documents of a table; an id that stands twice is refused."""
    names: dict[str, str] = {}
    texts = []
    for record in open_collection(source, name=name, text=text).all_records():
        own = str(record["collection_id"]).strip()
        if own in names:
            raise UserError(
                f"document {own!r} is there twice; it also is {names[own]}",
                topic="data",
                where=record.at,
                hint="Give every document an id of its own, or set task.collection_id.",
            )
        names[own] = record.at
        texts.append(record["collection_text"])
    return Collection(list(names), texts)


def read_judgements(files: Sequence[str]) -> dict[str, Grades]:
    """The grades of each query's documents."""
    judged: dict[str, dict[str, float]] = {}
    for file in files:
        for number, line in enumerate(read_lines(Path(file)), start=1):
            if not line.strip():
                continue
            where = f"{file}, line {number:,}"
            read = _judgement(line, where, is_first=number == 1)
            if read is None:
                continue
            query, document, grade = read
            before = judged.setdefault(query, {}).setdefault(document, grade)
            if before != grade:
                raise UserError(
                    f"document {document} of query {query} is judged {before:g} and {grade:g}",
                    topic="data",
                    where=where,
                    hint="Keep one of the two.",
                )
    return {query: dict(grades) for query, grades in evaluated.items()}


def judgement_identities(files: Sequence[str]) -> Iterator[SourceIdentity]:
    """What the files hold, so that an edit is noticed."""
    return (SourceIdentity(file, *size_and_sha256(Path(file))) for file in files)


def _judgement(line: str, where: str, *, is_first: bool) -> tuple[str, str, float] | None:
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
        hint="Write `query document grade`, or as TREC does `query 0 document grade`.",
    )
