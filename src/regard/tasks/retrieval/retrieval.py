"""Retrieval: find the documents that answer a query, among all of a collection.

    rank of d for q  by  cosine of their vectors, every document compared: the search is exact

Training rows are pairs that belong together; the other rows of a batch are the negatives
(`models/task_models/sentence_model.py`). Judged queries are looked for in the whole `collection`,
or without one in all documents of the rows that are judged with them, which is far easier where
those are few.
What is relevant stands in the rows themselves or in a file of `judgements`; grades are optional.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from regard.batch import Example
from regard.core.errors import UserError
from regard.data.corpus import SourceNames, Split
from regard.evaluation.baselines.bm25 import BM25
from regard.evaluation.metrics.metric import Metric, Row
from regard.evaluation.metrics.ranking import RankingMetric, score_ranking
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.heads.task_heads import Pooling, SentenceHead
from regard.models.model import Model
from regard.models.task_models.sentence_model import ContrastiveModel
from regard.ops.knn import Floats
from regard.tasks import (
    TASKS,
    OnProgress,
    Problem,
    Task,
    TaskState,
    Tools,
    check_family,
    ignore_progress,
)
from regard.tasks.retrieval.collection import (
    Collection,
    Grades,
    judgement_identities,
    open_collection,
    read_collection,
    read_judgements,
)
from regard.tasks.retrieval.query_rows import graded_documents, join_rows
from regard.tasks.retrieval.sentence_embeddings import embed_texts, encode_text, pair_example
from regard.tasks.retrieval.vector_search import DEPTH, SearchResult, search

if TYPE_CHECKING:
    from regard.data.record_corpus import Record
    from regard.data.sources import SourceIdentity

MAX_SHOWN = 10
"Documents that the row of an answer names."
MAX_COLLECTION_IN_TRAINING = 5_000
"Documents up to which looks at dev while it trains search the whole collection."


@TASKS.add("retrieval", families=("encoder", "decoder"), compares_rows=True)
class Retrieval(Task):
    """Find the documents that answer a query."""

    query: str = "query"
    "The column that holds the query."
    document: str = "document"
    "The column that holds a document that belongs to it, or a list of them."
    relevance: str = "relevance"
    "The column that grades the document, where there is one; 0 or less is not relevant."
    query_id: str = "query_id"
    "The column that names the query in task.judgements."
    collection: str | None = None
    "All documents to be searched: a built-in set, or a file with a row for each."
    collection_id: str = "id"
    "Its column of names, which task.judgements use."
    collection_text: str = "text"
    "Its column of texts."
    judgements: SourceNames | None = None
    """A file or several of `query document grade`, also as TREC writes them; they count for the
    rows that have no document of their own."""
    temperature: float = Field(default=0.05, gt=0.0)
    "Divides cosines before the softmax: the smaller, the more the nearest wrong document counts."
    pooling: Pooling = "mean"
    "Which place stands for a text: first, last, or the mean of all."

    column_roles: ClassVar = ("query", "document")
    target_roles: ClassVar = ("document",)
    score_names: ClassVar = RankingMetric().score_names
    optional_roles: ClassVar = ("relevance", "query_id")
    role_types: ClassVar = {"document": "texts"}

    @model_validator(mode="after")
    def _judgements_name_a_collection(self) -> Self:
        if self.judgements is not None and self.collection is None:
            raise ValueError("judgements name documents by id: set collection to their table")
        return self

    @cached_property
    def searched(self) -> Collection | None:
        """The collection, read once."""
        if self.collection is None:
            return None
        return read_collection(self.collection, name=self.collection_id, text=self.collection_text)

    @cached_property
    def judged(self) -> Mapping[str, Grades]:
        return read_judgements(self._judgement_files)

    def optional_columns(self) -> tuple[str, ...]:
        """A file that judgements speak of holds queries alone; a grade that was asked for by
        another name than ours has to be there."""
        optional = ["query_id"]
        if self.judgements is not None:
            optional.append("document")
        if self.relevance == type(self).model_fields["relevance"].default:
            optional.append("relevance")
        return tuple(optional)

    def extra_sources(self) -> Iterator[SourceIdentity]:
        if self.collection is not None:
            opened = open_collection(
                self.collection, name=self.collection_id, text=self.collection_text
            )
            yield from (identity for _, identity in opened.identities())
        yield from judgement_identities(self._judgement_files)

    def build_problem(self, train: Sequence[Record], tools: Tools) -> RetrievalProblem:
        return RetrievalProblem(self, tools)

    def restore_problem(self, state: TaskState, tools: Tools) -> RetrievalProblem:
        return RetrievalProblem(self, tools)

    def items(self, rows: Sequence[Record]) -> list[Record]:
        """One record for each query; each has something to be found."""
        records = join_rows(rows)
        for record in records:
            grades = self.relevance_grades(record)
            if not any(grade > 0 for grade in (grades or {}).values()):
                why = "has no relevant document" if grades else "has no document and no judgement"
                raise UserError(
                    f"the query {record['query'][:40]!r} {why}, so nothing can be found for it",
                    topic="data",
                    where=record.at,
                    hint="Leave it out, or set task.document, task.judgements and task.query_id.",
                )
        return records

    def texts(self, record: Record) -> list[str]:
        return [record["query"], *(text for _, text in self.relevant(record))]

    def asked(self, record: Record) -> list[str]:
        return [record["query"]]

    def relevance_grades(self, record: Record) -> Grades | None:
        """How relevant each judged document of a row is, by name; None where nobody says."""
        if own := graded_documents(record):
            return {self._name_of(text, record): grade for text, grade in own}
        return self.judged.get(str(record.get("query_id", "")).strip())

    def relevant(self, record: Record) -> list[tuple[str, str]]:
        """Name and text of each relevant document that there is to be read."""
        names = [name for name, grade in (self.relevance_grades(record) or {}).items() if grade > 0]
        if self.searched is None:
            return [(name, name) for name in names]
        place = self.searched.place
        return [(name, self.searched.texts[place[name]]) for name in names if name in place]

    @property
    def _judgement_files(self) -> tuple[str, ...]:
        given = self.judgements or ()
        return (given,) if isinstance(given, str) else given

    def _name_of(self, text: str, record: Record) -> str:
        if self.searched is None:
            return text
        place = self.searched.index_by_text.get(text.strip())
        if place is None:
            raise UserError(
                f"the document {text[:40]!r} is not in task.collection = {self.collection!r}",
                topic="data",
                where=record.at,
                hint="Rows have to hold documents of the collection, word by word.",
            )
        return self.searched.names[place]


class RetrievalProblem(Problem):
    def __init__(self, task: Retrieval, tools: Tools) -> None:
        super().__init__(tools)
        self.task = task

    # Read when somebody measures: a model gives vectors of texts without its collection.
    @cached_property
    def metric(self) -> Metric:  # type: ignore[override]
        whole = self.task.searched
        return RankingMetric(
            searched=f"{len(whole)}:{whole.fingerprint[:8]}" if whole else "own part"
        )

    @property
    def is_fast_to_answer(self) -> bool:  # type: ignore[override]
        return len(self.task.searched or ()) <= MAX_COLLECTION_IN_TRAINING

    def remarks(self, train: Sequence[Record]) -> list[str]:
        whole = self.task.searched
        if whole is None:
            return []
        told = f"queries are looked for in {len(whole):,} documents of {self.task.collection}"
        judged = {name for grades in self.task.judged.values() for name in grades}
        if missing := len(judged - whole.place.keys()):
            told += f"; {missing:,} judged ones are not among them and cannot be found"
        return [told]

    def attach_head(self, model: Model, *, seed: int) -> Model:
        check_family(model, SequenceModel, 'Set model.family = "encoder" or "decoder".')
        assert isinstance(model, SequenceModel)
        head = SentenceHead(pooling=self.task.pooling)
        return ContrastiveModel(model, head, temperature=self.task.temperature, seed=seed)

    def examples(self, record: Record) -> list[Example]:
        query = encode_text(record["query"], self.tools)
        number = text_id(record["query"])
        return [
            pair_example(
                query, encode_text(text, self.tools), labels=np.array([number, text_id(name)])
            )
            for name, text in self.task.relevant(record)
        ]

    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = ignore_progress,
    ) -> list[Row]:
        grades = [self.task.relevance_grades(record) for record in records]
        collection = self._looked_through(grades)
        asked = [record["query"] for record in records]
        queries = embed_texts(model, asked, self.tools, device=device)
        documents = embed_texts(
            model, collection.texts, self.tools, device=device, on_progress=on_progress
        )
        found = search(queries, documents, temperature=self.task.temperature)
        rows: list[Row] = []
        for number, (one, known) in enumerate(zip(found, grades, strict=True)):
            ranked = [collection.names[place] for place in one.places]
            row = {"item": number, **_figures(ranked, known), **self._said(one, collection)}
            relevant = _relevant_places(known, collection)
            # Shares among the few documents of a part say nothing of another part's.
            if relevant and self.task.collection is not None:
                cosines = documents[relevant].astype(np.float64) @ queries[number]
                row["loss"] = one.log_denominator - float(self._weight(cosines))
            rows.append(row)
        return rows

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        label, answers = "", dict[Split, list[Row]]()
        indexed: tuple[Collection, BM25] | None = None
        for split, records in evaluated.items():
            grades = [self.task.relevance_grades(record) for record in records]
            collection = self._looked_through(grades)
            if indexed is None or indexed[0] is not collection:
                indexed = collection, BM25(collection.texts)
            label = indexed[1].label
            ranked = indexed[1].rank([record["query"] for record in records], DEPTH)
            answers[split] = [
                {"item": number, **_figures([collection.names[i] for i in one.ids], known)}
                for number, (one, known) in enumerate(zip(ranked, grades, strict=True))
            ]
        yield label, answers

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        first = {row["predicted"] for row in answers}
        if len(answers) > 1 and len(first) == 1:
            return (f"all {len(answers):,} queries find the same document first",)
        return ()

    def tables(self, answers: Sequence[Row], *, split: str) -> Mapping[str, list[Row]]:
        relevant = sum(len(row["truth"]) for row in answers)
        row = {
            "queries": len(answers),
            "documents": answers[0]["searched"],
            "relevant_per_query": relevant / len(answers),
        }
        return {"searched": [row]} if answers else {}

    def lost(self, record: Record) -> int:
        return sum(encode_text(text, self.tools).truncated for text in self.task.texts(record))

    def _looked_through(self, grades: Sequence[Grades | None]) -> Collection:
        whole = self.task.searched or Collection.of(name for one in grades for name in one or ())
        if not len(whole):
            raise UserError(
                "there is no document to look through",
                topic="task",
                hint="Give rows with a document each, or train with task.collection.",
            )
        return whole

    def _said(self, found: SearchResult, collection: Collection) -> Row:
        best = int(found.places[0])
        share = float(self._weight(found.cosines[:1])) - found.log_denominator
        shown = zip(found.places[:MAX_SHOWN].tolist(), found.cosines.tolist(), strict=False)
        return {
            "text": collection.texts[best],
            "confidence": min(1.0, math.exp(share)),
            "found": [{"document": collection.names[i], "cosine": cos} for i, cos in shown],
            "searched": len(collection),
        }

    def _weight(self, cosines: Floats) -> np.float64:
        """log Σ exp(cosine / τ)"""
        return np.float64(np.logaddexp.reduce(cosines / self.task.temperature))


def text_id(text: str) -> int:
    """The same for the same text and for no other, in 63 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def _figures(ranked: Sequence[str], grades: Grades | None) -> Row:
    """What came first, and how high what is relevant stands, where anybody says what is."""
    predicted = {"predicted": ranked[0] if ranked else ""}
    if grades is None:
        return predicted
    truth = [name for name, grade in grades.items() if grade > 0]
    return {
        **predicted,
        "truth": truth,
        **score_ranking(ranked, dict[Hashable, float](grades.items())),
    }


def _relevant_places(grades: Grades | None, collection: Collection) -> list[int]:
    names = [name for name, grade in (grades or {}).items() if grade > 0]
    return [collection.place[name] for name in names if name in collection.place]
