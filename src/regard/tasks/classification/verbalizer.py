"""Verbalizer: a decoder classifies by the probability of each label's words after a prompt.

    score(label) = Σ_t log p(w_t | w_<t, template)        w = the label's words
    score(label) − score(label | empty columns)           calibrated: Zhao et al., 2021

The label with the highest score is the prediction; the softmax over the scores of all labels is the
confidence. No head is needed, so a pretrained decoder answers zero-shot; fine-tuned, it learns to
generate the label's words (Schick and Schütze, 2021), with loss on those words only.

Labels whose words share all tokens but the last are scored in one row:

    <start> template           ─►  log p of each first token: all labels of one token at once
    <start> template  w_1 …    ─►  log p of the tokens that may follow
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
from regard.core.process.host import widest_float
from regard.core.progress import OnProgress, no_progress
from regard.data.record_corpus import ColumnType, Record
from regard.models.inputs import ModelInputs
from regard.models.model import TokenModel
from regard.tasks import TASKS, Problem, TaskState, Tools, check_family, predict_examples
from regard.tasks.classification.labels import (
    LabelProblem,
    LabelTask,
    natural_sort_key,
    record_label,
)
from regard.tasks.classification.template import FilledTemplate, Template

Scores = NDArray[np.float64]
"Log-probability of every label's words, in nats."


@TASKS.add("verbalizer", families=("decoder",))
class Verbalizer(LabelTask):
    """Classify a text by the probability of each label's words after a prompt (decoder)."""

    template: str = "{text}\nLabel:"
    "The prompt before the label: text with columns in braces, without a space at its end."
    words: dict[str, str] = Field(default={})
    """The words of each label that follow the template, with a leading space: { "0" = " bad" }.
    By default each label is its own word."""
    label: str = "label"
    "The column that holds the label."
    per_token: bool = False
    "Divide each score by the number of the label's tokens, so that long words are not penalised."
    calibrate: Literal["none", "empty"] = "none"
    "empty: subtract each label's score with empty columns (contextual calibration)."

    column_roles: ClassVar = ("label",)

    @model_validator(mode="after")
    def _template_and_words_are_usable(self) -> Self:
        for field in Template(self.template).fields:
            if field in (self.label, "label"):
                raise ValueError(
                    f"template names {field!r}, which would leak the answer; a column of that name "
                    "that is not the label has to be renamed"
                )
        for label, words in self.words.items():
            if not words.strip():
                raise ValueError(f"words of the label {label!r} are empty")
        if len(self.words) == 1:
            raise ValueError("words of only one label leave nothing to classify")
        return self

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that the template names."""
        return Template(self.template).fields

    def columns(self) -> dict[str, str]:
        return {field: field for field in self.fields} | {"label": self.label}

    def column_types(self) -> Mapping[str, ColumnType]:
        types: dict[str, ColumnType] = dict.fromkeys(self.fields, "text")
        return types | {"label": "label"}

    def input_columns(self) -> tuple[str, ...]:
        return self.fields

    def column_settings(self) -> Mapping[str, str]:
        return {field: f"{{{field}}} in task.template" for field in self.fields}

    def build_problem(self, train: Sequence[Record], tools: Tools) -> Problem[Any]:
        if not self.words:
            return super().build_problem(train, tools)
        return VerbalizerProblem(self, tools, sorted(self.words, key=natural_sort_key))

    def restore_problem(self, state: TaskState, tools: Tools) -> VerbalizerProblem:
        return VerbalizerProblem(self, tools, state["labels"])

    def label_words(self, label: str) -> str:
        return self.words[label] if self.words else f" {label}"

    def texts(self, record: Record) -> list[str]:
        words = self.label_words(record_label(record)) if "label" in record else ""
        return [Template(self.template).render(record) + words]

    def input_texts(self, record: Record) -> list[str]:
        return [record[field] for field in self.fields]

    def check(self, record: Record) -> None:
        label = record_label(record)
        if self.words and label not in self.words:
            raise record.error(
                f"the label {label!r} has no words",
                hint=f"Add them: task.words has only {', '.join(map(repr, sorted(self.words)))}.",
            )


@dataclass(frozen=True)
class Branch:
    """Labels whose words share all tokens but the last."""

    prefix: tuple[int, ...]
    "The shared tokens."
    labels: tuple[int, ...]
    "Indices of the labels."
    last_tokens: tuple[int, ...]
    "The last token of each label's words."


class VerbalizerProblem(LabelProblem[TokenModel]):
    """Predict the label of each row by its words."""

    task: Verbalizer

    def __init__(self, task: Verbalizer, tools: Tools, labels: Sequence[str]) -> None:
        super().__init__(task, tools, labels)
        self.template = Template(task.template)
        self.words = [tuple(tools.tokenizer.encode(task.label_words(label))) for label in labels]
        self._check_words()
        self.branches = _build_branches(self.words)
        start = tools.tokenizer.start
        self.start_ids = [] if start is None else [start]
        # The last token of the words is only a target.
        self.max_template_tokens = (
            tools.context - len(self.start_ids) - max(map(len, self.words)) + 1
        )

    def attach_head(self, model: TokenModel, *, seed: int) -> TokenModel:
        fits = model.generates and model.reads == "row"
        check_family(model, 'Set model.family = "decoder".', fits=fits)
        return model

    def examples(self, record: Record) -> list[Example]:
        return [self._example(self._build_prompt(record), self.words[self.label_index(record)])]

    def logprobs(
        self,
        model: TokenModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> Sequence[np.ndarray]:
        prompts = [self._build_prompt(record) for record in records]
        if self.task.calibrate == "empty":
            prompts.append(self._build_prompt(Record(dict.fromkeys(self.task.fields, ""))))
        scores = self._scores(model, prompts, device=device, on_progress=on_progress)
        if self.task.calibrate == "empty":
            scores = scores[:-1] - scores[-1]
        return list(log_softmax(scores, axis=1))

    def positions_to_answer(self, record: Record) -> int:
        prompt = len(self._build_prompt(record))
        return sum(prompt + len(branch.prefix) for branch in self.branches)

    def truncated_tokens(self, record: Record) -> int:
        return self._fill_template(record).truncated

    def _scores(
        self,
        model: TokenModel,
        prompts: Sequence[list[int]],
        *,
        device: str,
        on_progress: OnProgress,
    ) -> Scores:
        """(n,c): the score of every label after every prompt."""
        examples = [
            self._example(prompt, (*branch.prefix, branch.last_tokens[0]))
            for prompt in prompts
            for branch in self.branches
        ]
        branch_scores = predict_examples(
            examples,
            lambda batch: self._branch_scores(model, batch),
            pad=self.tools.tokenizer.padding_id,
            device=device,
            on_progress=on_progress,
        )
        scores = np.empty((len(prompts), len(self.labels)))
        for index, label_scores in enumerate(branch_scores):
            row, branch = divmod(index, len(self.branches))
            scores[row, list(self.branches[branch].labels)] = label_scores
        lengths = np.array([len(words) for words in self.words])
        return scores / lengths if self.task.per_token else scores

    @torch.inference_mode()
    def _branch_scores(self, model: TokenModel, batch: Batch) -> Iterator[Scores]:
        """For each row the scores of its branch's labels; the head is applied only at the few
        positions of the words."""
        is_word = batch.weights > 0
        x = model.hidden_states(ModelInputs.of_batch(batch))
        logprobs = model.head(x[is_word]).log_softmax(dim=-1, dtype=widest_float(x.device))
        target_logprobs = logprobs.gather(1, batch.targets[is_word][:, None]).squeeze(1)
        lengths = is_word.sum(dim=1).tolist()
        rows = zip(batch.rows, logprobs.split(lengths), target_logprobs.split(lengths), strict=True)
        for index, row_logprobs, of_targets in rows:
            last_tokens = list(self.branches[index % len(self.branches)].last_tokens)
            yield (of_targets[:-1].sum() + row_logprobs[-1, last_tokens]).cpu().numpy()

    def _fill_template(self, record: Record) -> FilledTemplate:
        return self.template.fill(record, self.tools.tokenizer, max_tokens=self.max_template_tokens)

    def _build_prompt(self, record: Record) -> list[int]:
        """The tokens before the label's words."""
        prompt = [*self.start_ids, *self._fill_template(record).ids]
        if not prompt:
            raise record.error(
                "the row has no token, and the tokenizer has no <start>",
                hint="Add a literal word to task.template.",
            )
        return prompt

    def _example(self, prompt: Sequence[int], words: Sequence[int]) -> Example:
        row = np.array([*prompt, *words], dtype=np.int64)
        weights = np.ones(len(row) - 1, dtype=np.float32)
        weights[: len(prompt) - 1] = 0.0  # no loss on the prompt
        return Example(row[:-1], row[1:], weights)

    def _check_words(self) -> None:
        """Refuse words that this tokenizer cannot distinguish, or that do not fit a row."""
        labels: dict[Any, str] = {}
        for label, words in zip(self.labels, self.words, strict=True):
            other = labels.setdefault(words, label)
            if not words or other != label:
                same = f"the same tokens as those of {other!r}" if words else "no token"
                raise UserError(
                    f"the words {self.task.label_words(label)!r} of the label {label!r} have "
                    f"{same} in this tokenizer ({self.tools.tokenizer.name})",
                    topic="recipe",
                    hint="Set task.words to words that it knows.",
                )
        longest = max(map(len, self.words))
        if self.tools.context <= longest:
            raise UserError(
                f"the words of a label have up to {longest} tokens, and model.context = "
                f"{self.tools.context} leaves none for a text before them",
                topic="recipe",
                hint="Give shorter ones in task.words, or raise model.context.",
            )


def _build_branches(words: Sequence[tuple[int, ...]]) -> list[Branch]:
    by_prefix: dict[tuple[int, ...], list[int]] = {}
    for label, tokens in enumerate(words):
        by_prefix.setdefault(tokens[:-1], []).append(label)
    return [
        Branch(prefix, tuple(labels), tuple(words[label][-1] for label in labels))
        for prefix, labels in by_prefix.items()
    ]
