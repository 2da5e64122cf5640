"""Recall: closed-book question answering with a confidence, and abstention below a threshold.

    decoder           <start> question ⁇ ⁇ answer <stop>, in one row; loss on the answer only
    encoder-decoder   <start> question  ─►  <start> answer …  ─►  answer <stop>       ⁇ = [MASK]

    probability = Π_t p(y_t | y_<t, question)        per-token = probability^(1/tokens)
    agreement   = fraction of sampled answers that equal the given one

A decoder's row has the format of `infill` and `salient` in pretraining: a text with its gap at the
end. Samples follow the same p, so agreement estimates the total probability of all variants of an
answer (case, punctuation, tokenization), up to sampling error. A subject that the pretraining text
never mentions can only be guessed; such answers are marked as guesses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from regard.core.json_records import record_table, restore_record
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import Data, Split
from regard.data.record_corpus import Record
from regard.evaluation.baselines.trivial import most_frequent_answer
from regard.evaluation.health.predictions import prediction_health
from regard.evaluation.metrics.metric import GROUP, Row
from regard.evaluation.metrics.recall import RecallMetric
from regard.generation.generate import GeneratedTokens
from regard.models.model import TokenModel
from regard.tasks import TASKS, TaskState, Tools
from regard.tasks.qa.abstention import Abstention, choose_threshold, risk_tables
from regard.tasks.qa.agreement import AnswerSampling, agreement
from regard.tasks.qa.recall_records import record_answers, seen_in_record
from regard.tasks.qa.subject_mentions import PretrainingText
from regard.tasks.text_generation.text_to_text import (
    FAMILIES,
    MAX_CACHED_POSITIONS,
    TextToText,
    TextToTextProblem,
)

Confidence = Literal["probability", "per-token", "agreement"]
FIELDS: Mapping[Confidence, str] = {
    "probability": "probability",
    "per-token": "probability_per_token",
    "agreement": "agreement",
}
"The field of each confidence in a result row."


def _as_data(value: Any) -> Any:
    return {"corpus": value} if isinstance(value, str | list | tuple) else value


@TASKS.add("recall", families=FAMILIES)
class Recall(TextToText):
    """Answer a question from the model's weights, or abstain."""

    question: str = "question"
    "The column that holds the question."
    answer: str = "answer"
    "The column that holds the answer, or a list of answers that count."
    seen: str = "seen"
    "The column that says whether the pretraining text mentions the subject; may be missing."
    seen_in: Annotated[
        Data | None,
        BeforeValidator(_as_data, json_schema_input_type=str | tuple[str, ...] | Data | None),
    ] = None
    """The pretraining text, as in its recipe's [data] (a name, or the same table): a subject that
    its train split does not mention was never seen. It overrides the column."""
    subject: str | None = None
    'A regular expression whose group is the subject of a question: "Where was (.+) born".'
    mask_tokens: int = Field(default=2, ge=1)
    "[MASK] tokens between question and answer in the row of a decoder."
    beams: int = Field(default=1, ge=1)
    "Beam width; 1 decodes greedily."
    max_new_tokens: int = Field(default=16, ge=1)
    "Maximum tokens of an answer; a decoder reserves them in its context, at most half of it."
    confidence: Confidence = "probability"
    "The confidence that the threshold applies to; the others are stored beside it."
    samples: int = Field(default=10, ge=0)
    "Answers sampled for each question to measure agreement; 0: none."
    samples_seed: int = Field(default=0, ge=0)
    "Seed of these samples, independent of the training's seed."
    coverage: float = Field(default=0.5, gt=0.0, le=1.0)
    "Fraction of dev questions that are answered; the answer to the others is: I don't know."
    precision: float | None = Field(default=None, gt=0.0, le=1.0)
    "Instead of coverage: the fraction of right answers among those given on dev."

    column_roles: ClassVar = ("question", "answer")
    target_roles: ClassVar = ("answer",)
    score_names: ClassVar = RecallMetric().score_names
    optional_roles: ClassVar = ("seen",)
    is_same_when_near: ClassVar = False  # another name is another question

    @field_validator("subject")
    @classmethod
    def _subject_has_a_group(cls, pattern: str | None) -> str | None:
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
    def _settings_are_complete(self) -> Self:
        if self.seen_in is not None and self.subject is None:
            raise ValueError('seen_in needs subject, the name to search for: "Where was (.+) born"')
        if self.confidence == "agreement" and not self.samples:
            raise ValueError('confidence = "agreement" needs samples: set it to 10, say')
        return self

    def build_problem(self, train: Sequence[Record], tools: Tools) -> RecallProblem:
        problem = RecallProblem(self, tools)
        problem.pretraining_text()  # a missing file is reported before training
        return problem

    def restore_problem(self, state: TaskState, tools: Tools) -> RecallProblem:
        values = state["abstention"]
        abstention = None if values is None else restore_record(Abstention, values)
        return RecallProblem(self, tools, abstention)

    def source_text(self, record: Record) -> str:
        return str(record["question"]).strip()

    def reference_texts(self, record: Record) -> list[str]:
        return record_answers(record)

    def texts(self, record: Record) -> list[str]:
        answers = self.reference_texts(record)
        if "answer" in record and not answers:
            raise record.error("the answer is empty", hint="Give it one, or take the row out.")
        return [self.source_text(record), *answers]

    def find_subject(self, question: str) -> str | None:
        """The subject of a question; None where the pattern does not match."""
        match = re.search(self.subject, question) if self.subject is not None else None
        groups = (group for group in match.groups() if group) if match else iter(())
        return next(groups, "").strip() or None


class RecallProblem(TextToTextProblem):
    """Answer each question, or abstain where the confidence is below the threshold."""

    task: Recall
    is_fast_to_answer = True
    tunes = True
    sides = "a question beside its answer"
    lengths = "task.max_new_tokens or task.mask_tokens"

    def __init__(self, task: Recall, tools: Tools, abstention: Abstention | None = None) -> None:
        self.separator = ("mask", task.mask_tokens)
        super().__init__(task, tools, RecallMetric())
        self.abstention = abstention
        "Chosen on dev; until then every question is answered."
        self._pretraining_text: PretrainingText | None = None

    def state(self) -> TaskState:
        return {"abstention": None if self.abstention is None else record_table(self.abstention)}

    def target_texts(self, record: Record) -> list[str]:
        # With a leading space, as in the middle of a text: some tokenizers encode it as part of
        # the word, and pretraining predicts the word with it.
        return [f" {text}" for text in self.task.reference_texts(record)]

    def answer(
        self,
        model: TokenModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        rows = self.predict(model, records, device=device, on_progress=on_progress)
        pairs = zip(rows, self.subjects_seen(records), strict=True)
        return [
            row if seen is None else {**row, "seen": seen} | _guess(seen) for row, seen in pairs
        ]

    def answer_in_training(
        self, model: TokenModel, records: Sequence[Record], *, device: str = "cpu"
    ) -> list[Row]:
        return super().answer(model, records, device=device)

    def predict(
        self,
        model: TokenModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        """Answers with confidence and abstention; `seen` and `guess` are left to `answer`."""
        rows = super().answer(model, records, device=device, on_progress=on_progress)
        agreements = self._agreement(model, records, [row["predicted"] for row in rows])
        field = FIELDS[self.task.confidence]
        predictions: list[Row] = []
        for row, agreement_rate in zip(rows, agreements, strict=True):
            full = {**row, **({} if agreement_rate is None else {"agreement": agreement_rate})}
            confidence = full[field]
            answered = self.abstention is None or self.abstention.answers(confidence)
            predictions.append(full | {"confidence": confidence, "answered": answered})
        return predictions

    def positions_to_answer(self, record: Record) -> int:
        # A sampled answer reads the question again, and is decoded as one beam is.
        one_answer = super().positions_to_answer(record)
        return one_answer + one_answer * self.task.samples // self.task.beams

    def positions_to_answer_in_training(self, record: Record) -> int:
        return super().positions_to_answer(record)

    def tune(self, model: TokenModel, dev: Sequence[Record], *, device: str = "cpu") -> list[str]:
        rows = [
            {**row, GROUP: self.task.group_of(record)}
            for row, record in zip(self.predict(model, dev, device=device), dev, strict=True)
            if "truths" in row
        ]
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
            {split: self._constant_rows(records, answers) for split, records in evaluated.items()},
        )

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        n = len(answers)
        with_truth = [row for row in answers if "truths" in row]
        warnings = list(
            prediction_health(
                [row["predicted"] for row in with_truth], [row["truths"][0] for row in with_truth]
            )
            if with_truth
            else ()
        )
        warnings += self._unfinished(answers)
        unmatched = sum("seen" not in row for row in answers)
        if self.task.seen_in is not None and unmatched:
            warnings.append(
                f"task.subject does not match {unmatched:,} of {n:,} questions, so it is unknown "
                "whether their subjects were seen"
            )
        return tuple(warnings)

    def tables(self, answers: Sequence[Row], *, split: str) -> Mapping[str, list[Row]]:
        threshold = None if self.abstention is None else self.abstention.threshold
        return risk_tables(answers, threshold=threshold, split=split)

    def pretraining_text(self) -> PretrainingText | None:
        """The pretraining text; None where the recipe names none, an error where it is missing."""
        if self._pretraining_text is None and self.task.seen_in is not None:
            self._pretraining_text = PretrainingText(self.task.seen_in)
        return self._pretraining_text

    def subjects_seen(self, records: Sequence[Record]) -> list[bool | None]:
        """Whether pretraining mentions each question's subject; None where that is unknown."""
        text = self.pretraining_text()
        if text is None:
            return [seen_in_record(record) for record in records]
        subjects = [self.task.find_subject(self.task.source_text(record)) for record in records]
        found = text.mentions([subject or "" for subject in subjects])
        return [
            None if subject is None else seen for subject, seen in zip(subjects, found, strict=True)
        ]

    def _row(self, item: int, record: Record, generated: GeneratedTokens) -> dict[str, object]:
        tokens = max(1, len(generated.ids) + generated.stopped)
        probability = min(1.0, math.exp(generated.logprob))
        truths = self.task.reference_texts(record)
        row: dict[str, object] = {
            "item": item,
            "predicted": self.tools.tokenizer.decode(generated.ids).strip(),
            "confidence": probability,
            "probability": probability,
            "probability_per_token": min(1.0, math.exp(generated.logprob / tokens)),
            "stopped": generated.stopped,
        }
        return row | ({"truths": truths} if truths else {})

    def _agreement(
        self, model: TokenModel, records: Sequence[Record], answers: Sequence[str]
    ) -> list[float | None]:
        if not self.task.samples:
            return [None] * len(records)
        sampling = AnswerSampling(
            samples=self.task.samples,
            max_new_tokens=self.max_new_tokens,
            batch_size=MAX_CACHED_POSITIONS // self.tools.context,
            seed=self.task.samples_seed,
        )
        sources = [self.source_ids(record) for record in records]
        tokenizer = self.tools.tokenizer
        return list(agreement(model, sources, answers, tokenizer=tokenizer, sampling=sampling))

    def _constant_rows(self, records: Sequence[Record], answers: Sequence[str]) -> list[Row]:
        predicted = most_frequent_answer(answers, len(records))
        rows = zip(records, predicted, self.subjects_seen(records), strict=True)
        return [
            {"item": item, "predicted": text, "truths": self.task.reference_texts(record)}
            | ({} if seen is None else {"seen": seen})
            for item, (record, text, seen) in enumerate(rows)
        ]


def _guess(seen: bool) -> dict[str, bool]:
    return {} if seen else {"guess": True}
