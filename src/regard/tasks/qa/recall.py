"""Recall: answer a question from memory, and say how sure that is.

    decoder        <start> question ⁇ ⁇ answer <stop>, in one row; the answer alone is told
    source model   <start> question  ─►  <start> answer …  ─►  answer <stop>          ⁇ = [MASK]

    probability = Π_t p(y_t | y_<t, question)        per-token = probability^(1/tokens)
    agreement   = share of drawn answers that say the same as the one given

The row of a decoder is what `infill` and `salient` show in pretraining: a text whose gap stands at
its end. Draws follow the same p, so agreement estimates the probability of all spellings of an
answer together (case, punctuation and other pieces aside), as coarsely as there are draws. What
the text behind the model never told of can only be guessed, and such answers are called guesses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from regard.batch import Example
from regard.core.errors import UserError
from regard.data.corpus import Data, Split
from regard.evaluation.baselines.trivial import most_frequent_answer
from regard.evaluation.health.predictions import prediction_health
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.recall import RecallMetric as RecallMeasure
from regard.generation.generate import GeneratedTokens
from regard.models.model import Model
from regard.tasks import TASKS, OnProgress, TaskState, Tools, ignore_progress
from regard.tasks.qa.abstention import Abstention, choose_threshold, risk_tables
from regard.tasks.qa.agreement import Draws, agreement
from regard.tasks.qa.recall_records import answers_in, seen_in_record
from regard.tasks.qa.subject_mentions import SeenText
from regard.tasks.text_generation.text_to_text import (
    FAMILIES,
    MAX_CACHED_POSITIONS,
    TextToText,
    TextToTextProblem,
)

if TYPE_CHECKING:
    from regard.data.record_corpus import Record

Confidence = Literal["probability", "per-token", "agreement"]
FIELDS: Mapping[Confidence, str] = {
    "probability": "probability",
    "per-token": "probability_per_token",
    "agreement": "agreement",
}
"Where each stands in the row of an answer."


def _as_data(value: Any) -> Any:
    return {"corpus": value} if isinstance(value, str | list | tuple) else value


@TASKS.add("recall", families=FAMILIES)
class Recall(TextToText):
    """Answer a question from memory, or say that one does not know."""

    question: str = "question"
    "The column that holds the question."
    answer: str = "answer"
    "The column that holds the answer, or a list of answers that count."
    seen: str = "seen"
    "The column that says whether the pretraining text tells of it; may be missing."
    seen_in: Annotated[Data | None, BeforeValidator(_as_data)] = None
    """The pretraining text, as its recipe's [data] has it (a name, or the same table): a subject
    that its training part does not name was never seen. It counts for more than the column."""
    subject: str | None = None
    'What of a question is asked about, as a pattern with a group: "Where was (.+) born".'
    marks: int = Field(default=2, ge=1)
    "[MASK] tokens between question and answer in the row of a decoder."
    beams: int = Field(default=1, ge=1)
    "Answers searched for at a time; 1 takes the likeliest token each time."
    max_new_tokens: int = Field(default=16, ge=1)
    "Tokens of an answer at most; a decoder keeps room for them, half of its context at most."
    confidence: Confidence = "probability"
    "What the threshold looks at; the others are kept beside it."
    samples: int = Field(default=10, ge=0)
    "Answers drawn for each question to see how many agree; 0 draws none."
    samples_seed: int = Field(default=0, ge=0)
    "By which they are drawn, whatever the model was trained with."
    coverage: float = Field(default=0.5, gt=0.0, le=1.0)
    "Share of the questions of dev that are answered; to the others it says: I don't know."
    precision: float | None = Field(default=None, gt=0.0, le=1.0)
    "Instead of coverage: the share of right ones wanted among the answers that are given on dev."

    column_roles: ClassVar = ("question", "answer")
    target_roles: ClassVar = ("answer",)
    score_names: ClassVar = RecallMeasure().score_names
    optional_roles: ClassVar = ("seen",)

    @field_validator("subject")
    @classmethod
    def _has_a_group(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        try:
            groups = re.compile(pattern).groups
        except re.error as problem:
            raise ValueError(f"{pattern!r} is no pattern ({problem})") from None
        if not groups:
            raise ValueError(f'{pattern!r} has no group; write "Where was (.+) born"')
        return pattern

    @model_validator(mode="after")
    def _knows_what_it_needs(self) -> Self:
        if self.seen_in is not None and self.subject is None:
            raise ValueError(
                'seen_in needs subject, whose name is looked for: "Where was (.+) born"'
            )
        if self.confidence == "agreement" and not self.samples:
            raise ValueError('confidence = "agreement" needs samples: set it to 10, say')
        return self

    def build_problem(self, train: Sequence[Record], tools: Tools) -> RecallProblem:
        problem = RecallProblem(self, tools)
        problem.find_text()
        return problem

    def restore_problem(self, state: TaskState, tools: Tools) -> RecallProblem:
        kept = state["abstention"]
        return RecallProblem(self, tools, None if kept is None else Abstention.from_dict(kept))

    def source_text(self, record: Record) -> str:
        return str(record["question"]).strip()

    def reference_texts(self, record: Record) -> list[str]:
        return answers_in(record)

    def texts(self, record: Record) -> list[str]:
        answers = self.reference_texts(record)
        if "answer" in record and not answers:
            raise UserError(
                "the answer is empty",
                topic="data",
                where=record.at,
                hint="Give it one, or take the row out.",
            )
        return [self.source_text(record), *answers]

    def subject_of(self, question: str) -> str | None:
        """Whom or what a question asks about; None where the pattern does not tell."""
        found = re.search(self.subject, question) if self.subject is not None else None
        named = (group for group in found.groups() if group) if found else iter(())
        return next(named, "").strip() or None


class RecallProblem(TextToTextProblem):
    """Answer each question, and hold back what is not sure enough."""

    task: Recall
    is_fast_to_answer = True

    def __init__(self, task: Recall, tools: Tools, abstention: Abstention | None = None) -> None:
        super().__init__(task, tools, RecallMeasure())
        self.abstention = abstention
        "Chosen on dev; until then every question is answered."
        self._text: SeenText | None = None
        if self.is_single_row:
            self.max_source_tokens -= task.marks - 1  # one of them is reckoned with already
        if self.max_source_tokens < 1:
            raise UserError(
                f"model.context = {tools.context} has no room for a question beside its answer",
                topic="recipe",
                hint="Raise model.context, or lower task.most_new or task.marks.",
            )

    def state(self) -> TaskState:
        return {"abstention": None if self.abstention is None else self.abstention.as_dict()}

    def read(self, record: Record) -> list[int]:
        tokenizer = self.tools.tokenizer
        kept = tokenizer.encode(self.task.source_text(record))[: self.max_source_tokens]
        marks = [tokenizer.require("mask")] * self.task.marks if self.is_single_row else []
        return [tokenizer.require("start"), *kept, *marks]

    def examples(self, record: Record) -> list[Example]:
        source = self.read(record)
        # With a space, as names stand in the middle of a text: to some tokenizers it is part of
        # the word, and pretraining told the word with it.
        return [self._example(source, f" {text}") for text in self.task.reference_texts(record)]

    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = ignore_progress,
    ) -> list[Row]:
        rows = self.tell(model, records, device=device, on_progress=on_progress)
        pairs = zip(rows, self.seen(records), strict=True)
        return [
            row if seen is None else {**row, "seen": seen} | _guess(seen) for row, seen in pairs
        ]

    def answer_in_training(
        self, model: Model, records: Sequence[Record], *, device: str = "cpu"
    ) -> list[Row]:
        return super().answer(model, records, device=device)

    def tell(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = ignore_progress,
    ) -> list[Row]:
        """Answers with their confidence, whether or not the model can have read of the matter."""
        rows = super().answer(model, records, device=device, on_progress=on_progress)
        shares = self._agreement(model, records, [row["predicted"] for row in rows])
        field = FIELDS[self.task.confidence]
        told: list[Row] = []
        for row, share in zip(rows, shares, strict=True):
            full = {**row, **({} if share is None else {"agreement": share})}
            confidence = full[field]
            answered = self.abstention is None or self.abstention.answers(confidence)
            told.append(full | {"confidence": confidence, "answered": answered})
        return told

    def tune(self, model: Model, dev: Sequence[Record], *, device: str = "cpu") -> list[str]:
        rows = [row for row in self.tell(model, dev, device=device) if "truths" in row]
        self.abstention = choose_threshold(
            rows, coverage=self.task.coverage, precision=self.task.precision
        )
        return [self.abstention.remark()]

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        answers = [text for record in train for text in self.task.reference_texts(record)]
        yield (
            "most frequent answer",
            {split: self._constant(records, answers) for split, records in evaluated.items()},
        )

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        n = len(answers)
        cut = sum(not row["stopped"] for row in answers)
        known = [row for row in answers if "truths" in row]
        told = list(
            prediction_health(
                [row["predicted"] for row in known], [row["truths"][0] for row in known]
            )
            if known
            else ()
        )
        if cut:
            told.append(f"{cut:,} of {n:,} answers did not end within {self.max_new_tokens} tokens")
        unnamed = sum("seen" not in row for row in answers)
        if self.task.seen_in is not None and unnamed:
            told.append(
                f"task.subject does not fit {unnamed:,} of {n:,} questions, so nothing tells "
                "whether what they ask about was seen"
            )
        return tuple(told)

    def tables(self, answers: Sequence[Row], *, split: str) -> Mapping[str, list[Row]]:
        threshold = None if self.abstention is None else self.abstention.threshold
        return risk_tables(answers, threshold=threshold, split=split)

    def lost(self, record: Record) -> int:
        encode = self.tools.tokenizer.encode
        question = len(encode(self.task.source_text(record))) - self.max_source_tokens
        room = self.tools.context - len(self.read(record) if self.is_single_row else [0])
        answers = (len(encode(f" {text}")) - room for text in self.task.reference_texts(record))
        return max(0, question) + sum(max(0, over) for over in answers)

    def find_text(self) -> SeenText | None:
        """The pretraining text, where the recipe names it; an error says that it is not there."""
        if self._text is None and self.task.seen_in is not None:
            self._text = SeenText(self.task.seen_in)
        return self._text

    def seen(self, records: Sequence[Record]) -> list[bool | None]:
        """Whether the model can have read of what each asks about; None where nothing tells."""
        text = self.find_text()
        if text is None:
            return [seen_in_record(record) for record in records]
        subjects = [self.task.subject_of(self.task.source_text(record)) for record in records]
        found = text.tells_of([subject or "" for subject in subjects])
        return [
            None if subject is None else seen for subject, seen in zip(subjects, found, strict=True)
        ]

    def _row(self, number: int, record: Record, one: GeneratedTokens) -> dict[str, object]:
        tokens = max(1, len(one.ids) + one.stopped)
        probability = min(1.0, math.exp(one.logprob))
        truths = self.task.reference_texts(record)
        row: dict[str, object] = {
            "item": number,
            "predicted": self.tools.tokenizer.decode(one.ids).strip(),
            "confidence": probability,
            "probability": probability,
            "probability_per_token": min(1.0, math.exp(one.logprob / tokens)),
            "stopped": one.stopped,
        }
        return row | ({"truths": truths} if truths else {})

    def _agreement(
        self, model: Model, records: Sequence[Record], given: Sequence[str]
    ) -> list[float | None]:
        if not self.task.samples:
            return [None] * len(records)
        draws = Draws(
            each=self.task.samples,
            max_new_tokens=self.max_new_tokens,
            at_once=MAX_CACHED_POSITIONS // self.tools.context,
            seed=self.task.samples_seed,
        )
        sources = [self.read(record) for record in records]
        return list(agreement(model, sources, given, tokenizer=self.tools.tokenizer, draws=draws))

    def _constant(self, records: Sequence[Record], answers: Sequence[str]) -> list[Row]:
        said = most_frequent_answer(answers, len(records))
        rows = zip(records, said, self.seen(records), strict=True)
        return [
            {"item": number, "predicted": text, "truths": self.task.reference_texts(record)}
            | ({} if seen is None else {"seen": seen})
            for number, (record, text, seen) in enumerate(rows)
        ]


def _guess(seen: bool) -> dict[str, bool]:
    return {} if seen else {"guess": True}
