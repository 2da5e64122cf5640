"""Verbalised labels: a decoder tells a label by the words that it would write for it.

    score(label) = Σ_t log p(w_t | w_<t, template)        w = the label's words
    score(label) − score(label | empty columns)           calibrated: Zhao et al., 2021

The likeliest words are the answer, and softmax over the scores of all labels is how sure that is.
No head is needed, so a pretrained decoder answers before anything is trained; tuned, it learns to
write the right words (Schick and Schütze, 2021), and the loss is theirs alone.

Labels whose words begin alike share the row in which those beginnings are read:

    <start> template           ─►  log p of each first token: all labels of one token at once
    <start> template  w_1 …    ─►  log p of what may follow
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy.special import log_softmax

from regard.batch import Batch, Example
from regard.core.errors import UserError
from regard.data.corpus import Split
from regard.data.record_corpus import Holds, Record
from regard.evaluation.metrics.metric import Row
from regard.models.architectures.language_model import LanguageModel
from regard.models.model import Model
from regard.tasks import TASKS, OnProgress, Task, TaskState, Tools, refuse_family, told_of, untold
from regard.tasks.classification.labels import (
    Baseline,
    Labelling,
    from_words,
    label_of,
    labels_of,
    natural,
)
from regard.tasks.classification.template import FilledTemplate, Template

Scores = NDArray[np.float64]
"Of every label, in nats."


@TASKS.add("verbalised", families=("decoder",))
class Verbalizer(Task):
    """Tell the label of a text by the words a decoder would write for it."""

    template: str = "{text}\nLabel:"
    "What is read before the label: text with columns in braces, and no space at its end."
    words: dict[str, str] = Field(default={})
    """For each label what stands behind the template, with the space before it: { "0" = " bad" }.
    Left out, each label is its own word."""
    label: str = "label"
    "The column that holds the label."
    per_token: bool = False
    "Divide each score by the tokens of the label's words, so that long words are not less likely."
    calibrate: Literal["none", "empty"] = "none"
    "empty: what is likelier with the columns left empty too is no answer, so that is taken off."

    columns_wanted: ClassVar = ("label",)
    columns_told: ClassVar = ("label",)
    metrics: ClassVar = ("accuracy", "macro_f1", "mcc")

    @model_validator(mode="after")
    def _can_be_told(self) -> Self:
        for field in Template(self.template).fields:
            if field in (self.label, "label"):
                raise ValueError(
                    f"template names {field!r}, which would tell the answer; a column of that name "
                    "that is not the label has to be renamed"
                )
        for label, words in self.words.items():
            if not words.strip():
                raise ValueError(f"words of the label {label!r} are empty")
        if len(self.words) == 1:
            raise ValueError("words of one label alone leave nothing to tell apart")
        return self

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that are read."""
        return Template(self.template).fields

    def columns(self) -> dict[str, str]:
        return {field: field for field in self.fields} | {"label": self.label}

    def held_columns(self) -> Mapping[str, Holds]:
        return dict.fromkeys(self.fields, "text")

    def asked_columns(self) -> tuple[str, ...]:
        return self.fields

    def column_settings(self) -> Mapping[str, str]:
        return {field: f"{{{field}}} in task.template" for field in self.fields}

    def open(self, train: Sequence[Record], tools: Tools) -> VerbalizerProblem:
        labels = sorted(self.words, key=natural) if self.words else labels_of(train)
        return VerbalizerProblem(self, tools, labels)

    def reopen(self, learnt: TaskState, tools: Tools) -> VerbalizerProblem:
        return VerbalizerProblem(self, tools, learnt["labels"])

    def words_of(self, label: str) -> str:
        return self.words[label] if self.words else f" {label}"

    def texts(self, record: Record) -> list[str]:
        told = [self.words_of(label_of(record))] if "label" in record else []
        return [Template(self.template).rendered(record) + "".join(told)]

    def known_by(self, record: Record) -> str:
        return " ".join(self.asked(record))

    def asked(self, record: Record) -> list[str]:
        return [record[field] for field in self.fields]

    def check(self, record: Record) -> None:
        label = label_of(record)
        if self.words and label not in self.words:
            raise UserError(
                f"the label {label!r} has no words",
                topic="data",
                where=record.at,
                hint=f"Add them: task.words has {', '.join(map(repr, sorted(self.words)))} alone.",
            )


@dataclass(frozen=True)
class Branch:
    """Labels whose words begin alike."""

    beginning: tuple[int, ...]
    "All tokens of their words but the last."
    labels: tuple[int, ...]
    ends: tuple[int, ...]
    "The last token of each one's words."


class VerbalizerProblem(Labelling):
    """Tell the label of each row by its words."""

    def __init__(self, task: Verbalizer, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(tools, labels)
        self.task = task
        self.template = Template(task.template)
        self.words = [tuple(tools.tokenizer.encode(task.words_of(one))) for one in labels]
        self._refuse_unusable()
        self.branches = _branches(self.words)
        start = tools.tokenizer.start
        self.opening = [] if start is None else [start]
        # The last token of the words is told and never read.
        self.room = tools.context - len(self.opening) - max(map(len, self.words)) + 1

    def fit(self, model: Model, *, seed: int) -> Model:
        refuse_family(model, LanguageModel, 'Set model.family = "decoder".')
        return model

    def examples(self, record: Record) -> list[Example]:
        return [self._example(self._read(record), self.words[self.number_of(record)])]

    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = untold,
    ) -> list[Row]:
        assert isinstance(model, LanguageModel)
        read = [self._read(record) for record in records]
        if self.task.calibrate == "empty":
            read.append(self._read(Record(dict.fromkeys(self.task.fields, ""))))
        scores = self._scores(model, read, device=device, on_progress=on_progress)
        if self.task.calibrate == "empty":
            scores = scores[:-1] - scores[-1]
        shares = log_softmax(scores, axis=1)
        return [
            self.answer_row(n, *pair) for n, pair in enumerate(zip(records, shares, strict=True))
        ]

    def baselines(
        self, train: Sequence[Record], judged: Mapping[Split, Sequence[Record]]
    ) -> Iterator[Baseline]:
        yield from super().baselines(train, judged)
        if len(self.task.fields) == 2:
            first, second = self.task.fields
            yield from_words(train, judged, words=lambda record: (record[first], record[second]))
        else:
            yield from_words(train, judged, words=self.task.known_by)

    def places_to_answer(self, record: Record) -> int:
        read = len(self._read(record))
        return sum(read + len(branch.beginning) for branch in self.branches)

    def lost(self, record: Record) -> int:
        return self._filled(record).lost

    def _scores(
        self,
        model: LanguageModel,
        read: Sequence[list[int]],
        *,
        device: str,
        on_progress: OnProgress,
    ) -> Scores:
        """(n,c): of every label behind every row."""
        examples = [
            self._example(row, (*branch.beginning, branch.ends[0]))
            for row in read
            for branch in self.branches
        ]
        told = told_of(
            examples,
            lambda batch: self._told(model, batch),
            pad=self.tools.tokenizer.padding,
            device=device,
            on_progress=on_progress,
        )
        scores = np.empty((len(read), len(self.labels)))
        for number, some in enumerate(told):
            row, branch = divmod(number, len(self.branches))
            scores[row, list(self.branches[branch].labels)] = some
        lengths = np.array([len(words) for words in self.words])
        return scores / lengths if self.task.per_token else scores

    @torch.inference_mode()
    def _told(self, model: LanguageModel, batch: Batch) -> Iterator[Scores]:
        """For each row the scores of its branch's labels; words alone are scored, a few places."""
        counted = batch.weights > 0
        logs = model.head(model.read(batch)[counted]).double().log_softmax(dim=-1)
        begun = logs.gather(1, batch.targets[counted][:, None]).squeeze(1)
        places = counted.sum(dim=1).tolist()
        rows = zip(batch.rows, logs.split(places), begun.split(places), strict=True)
        for number, log, told in rows:
            ends = list(self.branches[number % len(self.branches)].ends)
            yield (told[:-1].sum() + log[-1, ends]).cpu().numpy()

    def _filled(self, record: Record) -> FilledTemplate:
        return self.template.filled(record, self.tools.tokenizer, room=self.room)

    def _read(self, record: Record) -> list[int]:
        """The tokens that are read before the label's."""
        read = [*self.opening, *self._filled(record).ids]
        if not read:
            raise UserError(
                "the row has no token, and the tokenizer no start",
                topic="data",
                where=record.at,
                hint="Put a word of your own into task.template.",
            )
        return read

    def _example(self, read: Sequence[int], words: Sequence[int]) -> Example:
        row = np.array([*read, *words], dtype=np.int64)
        weights = np.ones(len(row) - 1, dtype=np.float32)
        weights[: len(read) - 1] = 0.0  # given, not told
        return Example(row[:-1], row[1:], weights)

    def _refuse_unusable(self) -> None:
        """Words that this tokenizer cannot tell apart, or that no row has room for."""
        labels: dict[Any, str] = {}
        for label, words in zip(self.labels, self.words, strict=True):
            other = labels.setdefault(words, label)
            if not words or other != label:
                same = f"the same tokens as those of {other!r}" if words else "no token"
                raise UserError(
                    f"the words {self.task.words_of(label)!r} of the label {label!r} have {same} "
                    f"in this tokenizer ({self.tools.tokenizer.name})",
                    topic="recipe",
                    hint="Set task.words to words that it knows.",
                )
        longest = max(map(len, self.words))
        if self.tools.context <= longest:
            raise UserError(
                f"the words of a label have up to {longest} tokens, and model.context = "
                f"{self.tools.context} leaves no room for a text before them",
                topic="recipe",
                hint="Give shorter ones in task.words, or raise model.context.",
            )


def _branches(words: Sequence[tuple[int, ...]]) -> list[Branch]:
    together: dict[tuple[int, ...], list[int]] = {}
    for number, tokens in enumerate(words):
        together.setdefault(tokens[:-1], []).append(number)
    return [
        Branch(beginning, tuple(numbers), tuple(words[number][-1] for number in numbers))
        for beginning, numbers in together.items()
    ]
