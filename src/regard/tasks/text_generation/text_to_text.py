"""Conditional text generation (seq2seq): the base of translation, summarisation and recall.

    encoder-decoder   <start> source  ─►  <start> target …  ─►  target <stop>
    decoder           <start> source [SEP] target <stop>, in one row; loss on the target only

    loss = −Σ_t log p(y_t | y_<t, source)

Answers are decoded greedily or by beam search. Sources and targets that are too long are truncated
at their end; a truncated target has no loss on <stop>.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field

from regard.batch import Example
from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.data.record_corpus import Record
from regard.evaluation.health.samples import sample_health
from regard.evaluation.metrics.metric import Metric, Row
from regard.generation.decoding_setup import prepare_decoding, suppressed_ids
from regard.generation.generate import BeamSearch, GeneratedTokens, Greedy, Strategy, generate
from regard.models.model import TokenModel, weighted_losses
from regard.tasks import Problem, Task, Tools, check_family, example_batches, example_length

FAMILIES = ("encoder-decoder", "recurrent", "decoder")
MAX_CACHED_POSITIONS = 16_384
"Maximum positions of the KV caches in a generation batch, a full context for every beam."
POSITIONS_PER_TOKEN = 6
"Cost of a decode step for one token, in positions of a batched forward pass (measured)."
MAX_HEALTH_TEXTS = 200
"Maximum answers compared with their references to detect collapsed generation."


class TextToText(Task):
    """Settings of generation; the source is defined by each task."""

    beams: int = Field(default=4, ge=1)
    "Beam width; 1 decodes greedily."
    length_penalty: float = Field(default=0.6, ge=0.0)
    "α of beam search: 0 compares log-probabilities, which favours short answers."
    max_new_tokens: int = Field(default=60, ge=1)
    "Maximum generated tokens; a decoder reserves them in its context, at most half of it."
    smoothing: float = Field(default=0.0, ge=0.0, lt=1.0)
    "Label smoothing: fraction of each target spread over all tokens; part of the training loss."

    writes_target: ClassVar = True

    @abstractmethod
    def source_text(self, record: Record) -> str:
        """The source of a row."""

    @abstractmethod
    def reference_texts(self, record: Record) -> list[str]:
        """The reference targets of a row; empty where it has none."""

    def texts(self, record: Record) -> list[str]:
        return [self.source_text(record), *self.reference_texts(record)]

    def input_texts(self, record: Record) -> list[str]:
        return [self.source_text(record)]


class TextToTextProblem(Problem[TokenModel]):
    """Generate a text from each row's source."""

    is_fast_to_answer = False
    separator: tuple[str, int] = ("sep", 1)
    "Role and number of the tokens between source and target in one row."
    sides: ClassVar[str] = "a source beside its target"
    lengths: ClassVar[str] = "task.max_new_tokens"
    "Settings that leave less of the context to the source."

    def __init__(self, task: TextToText, tools: Tools, metric: Metric) -> None:
        super().__init__(tools)
        self.task = task
        self.metric = metric
        self.is_single_row = tools.family == "decoder"
        limit = tools.context // 2 if self.is_single_row else tools.context
        self.max_new_tokens = min(task.max_new_tokens, limit)
        self.max_source_tokens = tools.context - 1
        if self.is_single_row:
            self.max_source_tokens -= self.max_new_tokens + self.separator[1]
        if self.max_source_tokens < 1:
            raise UserError(
                f"model.context = {tools.context} is too short for {self.sides}",
                topic="recipe",
                hint=f"Raise model.context, or lower {self.lengths}.",
            )

    def attach_head(self, model: TokenModel, *, seed: int) -> TokenModel:
        hint = f"Set model.family to {' or '.join(FAMILIES)}."
        check_family(model, hint, fits=model.generates)
        return model

    def examples(self, record: Record) -> list[Example]:
        source = self.source_ids(record)
        return [self._example(source, text) for text in self.target_texts(record)]

    def source_ids(self, record: Record) -> list[int]:
        """The tokens before the target: the encoder's input, or a decoder's prompt."""
        tokenizer = self.tools.tokenizer
        kept = tokenizer.encode(self.task.source_text(record))[: self.max_source_tokens]
        role, count = self.separator
        separator = [tokenizer.require(role)] * count if self.is_single_row else []
        return [tokenizer.require("start"), *kept, *separator]

    def target_texts(self, record: Record) -> list[str]:
        """The targets of a row as they are tokenized."""
        return self.task.reference_texts(record)

    def answer(
        self,
        model: TokenModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        sources = [self.source_ids(record) for record in records]
        order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
        batch_size = max(1, MAX_CACHED_POSITIONS // (self.tools.context * self.task.beams))
        generated: dict[int, GeneratedTokens] = {}
        for begin in range(0, len(order), batch_size):
            indices = order[begin : begin + batch_size]
            outputs = self._generate(model, [sources[index] for index in indices])
            generated |= zip(indices, outputs, strict=True)
            on_progress(len(generated), len(records))
        losses = self._losses(model, records, device=device)
        return [
            self._row(item, record, generated[item]) | losses.get(item, {})
            for item, record in enumerate(records)
        ]

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        with_truth = [row for row in answers if "truths" in row]
        return (
            *self._unfinished(answers),
            *_repeated_answer(with_truth),
            *self._generation_health(with_truth[:MAX_HEALTH_TEXTS]),
        )

    def positions_to_answer(self, record: Record) -> int:
        examples = self.examples(record)
        tokens = max(
            (int(example.weights.sum()) for example in examples), default=self.max_new_tokens
        )
        decoding = POSITIONS_PER_TOKEN * self.task.beams * tokens
        return sum(map(example_length, examples)) + len(self.source_ids(record)) + decoding

    def truncated_tokens(self, record: Record) -> int:
        tokenizer, source = self.tools.tokenizer, self.task.source_text(record)
        max_target = self.tools.context - len(self._target_prefix(self.source_ids(record)))
        texts = tokenizer.encode_many([source, *self.target_texts(record)])
        limits = [self.max_source_tokens, *[max_target] * (len(texts) - 1)]
        return sum(max(0, len(ids) - limit) for ids, limit in zip(texts, limits, strict=True))

    def _example(self, source: list[int], reference: str) -> Example:
        tokenizer = self.tools.tokenizer
        ids = tokenizer.encode(reference)
        prefix = self._target_prefix(source)
        kept = ids[: self.tools.context - len(prefix)]
        weights = np.ones(len(prefix) + len(kept), dtype=np.float32)
        weights[: len(prefix) - 1] = 0.0  # no loss on the prompt
        if len(kept) < len(ids):
            weights[-1] = 0.0
        return Example(
            np.array([*prefix, *kept], dtype=np.int64),
            np.array([*prefix[1:], *kept, tokenizer.require("stop")], dtype=np.int64),
            weights,
            source=None if self.is_single_row else np.array(source, dtype=np.int64),
            smoothing=self.task.smoothing,
        )

    def _target_prefix(self, source: list[int]) -> list[int]:
        """The tokens of a row before its target."""
        return source if self.is_single_row else [self.tools.tokenizer.require("start")]

    def _generate(self, model: TokenModel, sources: Sequence[list[int]]) -> list[GeneratedTokens]:
        tokenizer = self.tools.tokenizer
        decoder, prompts = prepare_decoding(model, sources, tokenizer)
        return generate(
            decoder,
            prompts,
            strategy=self._strategy,
            max_new_tokens=self.max_new_tokens,
            stop=tokenizer.require("stop"),
            pad=tokenizer.padding_id,
            suppress_tokens=suppressed_ids(tokenizer),
        )

    @property
    def _strategy(self) -> Strategy:
        if self.task.beams == 1:
            return Greedy()
        return BeamSearch(width=self.task.beams, length_penalty=self.task.length_penalty)

    @torch.inference_mode()
    def _losses(
        self, model: TokenModel, records: Sequence[Record], *, device: str
    ) -> dict[int, dict[str, float]]:
        """Mean loss a token over the references of each record that has any, by item."""
        example_items, examples = [], []
        for item, record in enumerate(records):
            for example in self.examples(record):
                example_items.append(item)
                examples.append(example)
        sums = np.zeros((2, len(records)))
        pad = self.tools.tokenizer.padding_id
        for indices, batch in example_batches(examples, pad=pad, device=device) if examples else ():
            losses = weighted_losses(model, batch)
            row_sums = torch.stack((losses.sum(dim=1), batch.weights.to(losses.dtype).sum(dim=1)))
            np.add.at(sums.T, [example_items[index] for index in indices], row_sums.T.cpu().numpy())
        return {
            item: {"loss": float(total / tokens)}
            for item, (total, tokens) in enumerate(sums.T)
            if tokens
        }

    def _row(self, item: int, record: Record, generated: GeneratedTokens) -> dict[str, object]:
        source, references = self.task.source_text(record), self.task.reference_texts(record)
        row: dict[str, object] = {
            "item": item,
            "predicted": self.tools.tokenizer.decode(generated.ids).strip(),
            "confidence": math.exp(
                generated.logprob / max(1, len(generated.ids) + generated.stopped)
            ),
            "stopped": generated.stopped,
            "source_words": len(source.split()),
        }
        return row | ({"truths": references} if references else {})

    def _unfinished(self, answers: Sequence[Row]) -> tuple[str, ...]:
        count = sum(not row["stopped"] for row in answers)
        if not count:
            return ()
        limit = f"within {self.max_new_tokens} tokens"
        return (f"{count:,} of {len(answers):,} answers did not end {limit}",)

    def _generation_health(self, answers: Sequence[Row]) -> tuple[str, ...]:
        """How generated texts differ from real ones, measured against the references."""
        tokenizer = self.tools.tokenizer
        generated = tokenizer.encode_many([row["predicted"] for row in answers])
        references = tokenizer.encode_many([row["truths"][0] for row in answers])
        return sample_health(generated, references, unknown=tokenizer.unk).flags


def _repeated_answer(answers: Sequence[Row]) -> tuple[str, ...]:
    """A warning where one answer is given to many sources, far more often than any reference."""
    if not answers:
        return ()
    [(text, times)] = Counter(row["predicted"] for row in answers).most_common(1)
    [(_, reference_times)] = Counter(row["truths"][0] for row in answers).most_common(1)
    if not text or times < max(3, 0.05 * len(answers)) or times <= 3 * reference_times:
        return ()
    return (
        f"{text[:60]!r} is the answer to {times:,} of {len(answers):,} sources; no reference "
        f"occurs more than {reference_times:,} times",
    )


def record_texts(record: Record, role: str) -> list[str]:
    """The texts of a role that holds one or several; blank ones are left out."""
    value = record.get(role, [])
    return [text for text in ([value] if isinstance(value, str) else value) if text.strip()]
