"""Dense retrieval: rank the documents of a collection by relevance to a query.

    rank of d for q  by  cosine of their embeddings, over every document: the search is exact

Training rows are pairs of a query and a relevant document; the other rows of a batch are the
negatives (`models/task_models/sentence_model.py`). Evaluated queries search the whole `collection`;
without one, all documents of the evaluated rows, which is far easier where those are few.
Relevance is given by the rows themselves or by a file of `judgements`; grades are optional.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from regard.batch import Example
from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import SourceNames, Split
from regard.data.record_corpus import Record
from regard.data.sources import SourceIdentity
from regard.evaluation.baselines.bm25 import BM25
from regard.evaluation.metrics.metric import Metric, Row
from regard.evaluation.metrics.ranking import RankingMetric, score_ranking
from regard.models.heads.task_heads import Pooling, SentenceHead
from regard.models.model import TokenModel
from regard.models.task_models.sentence_model import ContrastiveModel
from regard.ops.knn import Floats
from regard.tasks import TASKS, Problem, Task, TaskState, Tools, check_family
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

MAX_SHOWN = 10
"Maximum documents listed in a result row."
MAX_COLLECTION_IN_TRAINING = 5_000
"Maximum documents of a collection that evaluations during training search."


@TASKS.add("retrieval", families=("encoder", "decoder"), compares_rows=True)
class Retrieval(Task):
    """Find the documents that are relevant to a query."""

    query: str = "query"
    "The column that holds the query."
    document: str = "document"
    "The column that holds a document of the query, or a list of them; relevant unless graded."
    relevance: str = "relevance"
    "The column that grades the document, 0 or less: not relevant; may be missing."
    query_id: str = "query_id"
    "The column that holds the query's id in task.judgements."
    collection: str | None = None
    "The documents to search: a built-in set, or a file with a row a document."
    collection_id: str = "id"
    "The collection's column of document ids, as used in task.judgements."
    collection_text: str = "text"
    "The collection's column of texts."
    judgements: SourceNames | None = None
    """Files of relevance judgements, `query document grade` or in TREC's format, for the rows that
    have no document."""
    temperature: float = Field(default=0.05, gt=0.0)
    "Divides cosines before the softmax: the smaller, the more the hardest negatives count."
    pooling: Pooling = "mean"
    "Pooled position: first, last, or the mean of all."

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
    def documents(self) -> Collection | None:
        """The collection, read once."""
        if self.collection is None:
            return None
        return read_collection(
            self.collection, id_column=self.collection_id, text_column=self.collection_text
        )

    @cached_property
    def judged_grades(self) -> Mapping[str, Grades]:
        """Grades from `judgements`, by query id."""
        return read_judgements(self._judgement_files)

    def optional_columns(self) -> tuple[str, ...]:
        """With judgements, rows need no document; a column of grades under another name than the
        default is required."""
        optional = ["query_id"]
        if self.judgements is not None:
            optional.append("document")
        if self.relevance == type(self).model_fields["relevance"].default:
            optional.append("relevance")
        return tuple(optional)

    def extra_sources(self) -> Iterator[SourceIdentity]:
        if self.collection is not None:
            collection = open_collection(
                self.collection, id_column=self.collection_id, text_column=self.collection_text
            )
            yield from (identity for _, identity in collection.identities())
        yield from judgement_identities(self._judgement_files)

    def restore_problem(self, state: TaskState, tools: Tools) -> RetrievalProblem:
        return RetrievalProblem(self, tools)

    def items(self, rows: Sequence[Record]) -> list[Record]:
        """One record a query; a query without a relevant document is refused."""
        records = join_rows(rows)
        for record in records:
            grades = self.relevance_grades(record)
            if not _relevant_ids(grades):
                why = "has no relevant document" if grades else "has no document and no judgement"
                raise record.error(
                    f"the query {record['query'][:40]!r} {why}, so nothing can be found for it",
                    hint="Leave it out, or set task.document, task.judgements and task.query_id.",
                )
        return records

    def texts(self, record: Record) -> list[str]:
        return [record["query"], *(text for _, text in self.relevant_documents(record))]

    def input_texts(self, record: Record) -> list[str]:
        return [record["query"]]

    def target_text(self, record: Record) -> str | None:
        # Rows that files judge have no document of their own.
        return "\0".join(text for _, text in self.relevant_documents(record)) or None

    def relevance_grades(self, record: Record) -> Grades | None:
        """Grades of a row's documents, by document id; None where the row has no judgement."""
        if graded := graded_documents(record):
            return {self._document_id(text, record): grade for text, grade in graded}
        return self.judged_grades.get(str(record.get("query_id", "")).strip())

    def relevant_documents(self, record: Record) -> list[tuple[str, str]]:
        """Id and text of each relevant document; those that the collection lacks are left out."""
        ids = _relevant_ids(self.relevance_grades(record))
        if self.documents is None:
            return [(document, document) for document in ids]
        index, texts = self.documents.index_by_id, self.documents.texts
        return [(document, texts[index[document]]) for document in ids if document in index]

    @property
    def _judgement_files(self) -> tuple[str, ...]:
        files = self.judgements or ()
        return (files,) if isinstance(files, str) else files

    def _document_id(self, text: str, record: Record) -> str:
        if self.documents is None:
            return text
        index = self.documents.index_by_text.get(text.strip())
        if index is None:
            raise record.error(
                f"the document {text[:40]!r} is not in task.collection = {self.collection!r}",
                hint="The documents of rows have to be in the collection, word by word.",
            )
        return self.documents.ids[index]


class SearchIndex(NamedTuple):
    """A collection, and the embedding of each of its documents."""

    collection: Collection
    embeddings: NDArray[np.float32]


class RetrievalProblem(Problem[ContrastiveModel]):
    def __init__(self, task: Retrieval, tools: Tools) -> None:
        super().__init__(tools)
        self.task = task

    # Lazy: a model embeds texts without its collection.
    @cached_property
    def metric(self) -> Metric:  # type: ignore[override]
        documents = self.task.documents
        return RankingMetric(
            searched=f"{len(documents)}:{documents.fingerprint[:8]}" if documents else "own split"
        )

    @property
    def is_fast_to_answer(self) -> bool:  # type: ignore[override]
        return len(self.task.documents or ()) <= MAX_COLLECTION_IN_TRAINING

    def remarks(self, train: Sequence[Record]) -> list[str]:
        documents = self.task.documents
        if documents is None:
            return []
        remark = f"queries search {len(documents):,} documents of {self.task.collection}"
        judged = {document for grades in self.task.judged_grades.values() for document in grades}
        if missing := len(judged - documents.index_by_id.keys()):
            remark += f"; {missing:,} judged ones are not among them and cannot be found"
        return [remark]

    def attach_head(self, model: TokenModel, *, seed: int) -> ContrastiveModel:
        hint = 'Set model.family = "encoder" or "decoder".'
        check_family(model, hint, fits=model.reads == "row")
        head = SentenceHead(pooling=self.task.pooling)
        return ContrastiveModel(model, head, temperature=self.task.temperature, seed=seed)

    def examples(self, record: Record) -> list[Example]:
        query = encode_text(record["query"], self.tools)
        query_id = text_id(record["query"])
        return [
            pair_example(
                query, encode_text(text, self.tools), labels=np.array([query_id, text_id(document)])
            )
            for document, text in self.task.relevant_documents(record)
        ]

    def answer(
        self,
        model: ContrastiveModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        grades = [self.task.relevance_grades(record) for record in records]
        index = self.build_index(
            model, self._search_collection(grades), device=device, on_progress=on_progress
        )
        return self.answer_from(index, model, records, device=device)

    def build_index(
        self,
        model: ContrastiveModel,
        collection: Collection,
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> SearchIndex:
        """The documents as this model embeds them now; it is no index of one that trains on."""
        documents = embed_texts(
            model, collection.texts, self.tools, device=device, on_progress=on_progress
        )
        return SearchIndex(collection, documents)

    def answer_from(
        self,
        index: SearchIndex,
        model: ContrastiveModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
    ) -> list[Row]:
        """The answers from an index."""
        grades = [self.task.relevance_grades(record) for record in records]
        collection, documents = index
        query_texts = [record["query"] for record in records]
        queries = embed_texts(model, query_texts, self.tools, device=device)
        results = search(queries, documents, temperature=self.task.temperature)
        rows: list[Row] = []
        for item, (result, item_grades) in enumerate(zip(results, grades, strict=True)):
            ranked = [collection.ids[document] for document in result.indices]
            row = {
                "item": item,
                **_ranking_fields(ranked, item_grades),
                **self._result_fields(result, collection),
            }
            relevant = _relevant_indices(item_grades, collection)
            # Without a collection each split searches its own documents: losses would not compare.
            if relevant and self.task.collection is not None:
                cosines = documents[relevant].astype(np.float64) @ queries[item]
                row["loss"] = result.log_denominator - float(self._logsumexp(cosines))
            rows.append(row)
        return rows

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        label, answers = "", dict[Split, list[Row]]()
        indexed: tuple[Collection, BM25] | None = None
        for split, records in evaluated.items():
            grades = [self.task.relevance_grades(record) for record in records]
            collection = self._search_collection(grades)
            if indexed is None or indexed[0] is not collection:
                indexed = collection, BM25(collection.texts)
            label = indexed[1].label
            rankings = indexed[1].rank([record["query"] for record in records], DEPTH)
            answers[split] = [
                {"item": item, **_ranking_fields([collection.ids[i] for i in found.ids], known)}
                for item, (found, known) in enumerate(zip(rankings, grades, strict=True))
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

    def truncated_tokens(self, record: Record) -> int:
        return sum(encode_text(text, self.tools).truncated for text in self.task.texts(record))

    def _search_collection(self, grades: Sequence[Grades | None]) -> Collection:
        """The collection, or all documents that the rows name."""
        named = (document for each in grades for document in each or ())
        collection = self.task.documents or Collection.from_texts(named)
        if not len(collection):
            raise UserError(
                "there is no document to search",
                topic="task",
                hint="Give rows with a document each, or train with task.collection.",
            )
        return collection

    def _result_fields(self, result: SearchResult, collection: Collection) -> Row:
        best = int(result.indices[0])
        logprob = float(self._logsumexp(result.cosines[:1])) - result.log_denominator
        shown = zip(result.indices[:MAX_SHOWN].tolist(), result.cosines.tolist(), strict=False)
        return {
            "text": collection.texts[best],
            "confidence": min(1.0, math.exp(logprob)),
            "found": [{"document": collection.ids[i], "cosine": cos} for i, cos in shown],
            "searched": len(collection),
        }

    def _logsumexp(self, cosines: Floats) -> np.float64:
        """log Σ exp(cosine / τ)"""
        return np.float64(np.logaddexp.reduce(cosines / self.task.temperature))


def text_id(text: str) -> int:
    """A 63-bit hash that identifies a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def _ranking_fields(ranked: Sequence[str], grades: Grades | None) -> Row:
    """The first document, and where grades are given the relevant ones and the scores."""
    predicted = {"predicted": ranked[0] if ranked else ""}
    if grades is None:
        return predicted
    return {
        **predicted,
        "truth": _relevant_ids(grades),
        **score_ranking(ranked, dict[Hashable, float](grades.items())),
    }


def _relevant_ids(grades: Grades | None) -> list[str]:
    return [document for document, grade in (grades or {}).items() if grade > 0]


def _relevant_indices(grades: Grades | None, collection: Collection) -> list[int]:
    index = collection.index_by_id
    return [index[document] for document in _relevant_ids(grades) if document in index]
