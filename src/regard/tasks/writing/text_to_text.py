"""Write a text from another: what translation and summarisation share.

    source model   <start> source  ─►  <start> target …  ─►  target <stop>
    decoder        <start> source [SEP] target <stop>, in one row; the target alone is told

    loss = −Σ_t log p(y_t | y_<t, source)

The answer is searched for: the likeliest token each time, or a beam. A source that does not fit
loses its end, and so does a target; where a target was cut, no stop is taught.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from pydantic import Field

from regard.batch import Example
from regard.core.errors import UserError
from regard.evaluation.health.samples import sample_health
from regard.evaluation.metrics.metric import Metric, Row
from regard.generation.decoders import never_written, writer_of
from regard.generation.generate import BeamSearch, GeneratedTokens, Greedy, Strategy, generate
from regard.models.architectures.language_model import LanguageModel
from regard.models.architectures.seq2seq_model import Seq2SeqModel
from regard.models.model import Model
from regard.tasks import (
    OnProgress,
    Problem,
    Task,
    Tools,
    batches_of,
    places_of,
    refuse_family,
    untold,
)

if TYPE_CHECKING:
    from regard.data.record_corpus import Record

FAMILIES = ("encoder-decoder", "recurrent", "decoder")
PLACES_HELD = 16_384
"Of rows that are written together, every beam counted with a whole context: what caches hold."
PLACES_A_TOKEN = 6
"What a token costs that is written alone, in places that are read together (measured)."
TEXTS_LOOKED_AT = 200
"Answers that are held against as many references, to see whether they have collapsed."


class TextToText(Task):
    """How a text is written; what it is written from is the task's own."""

    beams: int = Field(default=4, ge=1)
    "Answers searched for at a time; 1 takes the likeliest token each time."
    length_penalty: float = Field(default=0.6, ge=0.0)
    "α of the beam: 0 compares log-probabilities, which favours short answers."
    most_new: int = Field(default=60, ge=1)
    "Tokens written at most; a decoder keeps room for them, half of its context at most."
    smoothing: float = Field(default=0.0, ge=0.0, lt=1.0)
    "Share of each target that goes to all tokens alike in training, whose loss then counts it in."

    @abstractmethod
    def source_of(self, record: Record) -> str:
        """What is written from."""

    @abstractmethod
    def references_of(self, record: Record) -> list[str]:
        """What may be written; nothing where the row does not say."""

    def texts(self, record: Record) -> list[str]:
        return [self.source_of(record), *self.references_of(record)]

    def asked(self, record: Record) -> list[str]:
        return [self.source_of(record)]


class TextToTextProblem(Problem):
    """Write from each row's source."""

    answers_quickly = False

    def __init__(self, task: TextToText, tools: Tools, measure: Metric) -> None:
        super().__init__(tools)
        self.task = task
        self.measure = measure
        self.in_one_row = tools.family == "decoder"
        room = tools.context // 2 if self.in_one_row else tools.context
        self.most_new = min(task.most_new, room)
        self.source_room = tools.context - 1
        if self.in_one_row:
            self.source_room -= self.most_new + 1  # and the mark between the two
        if self.source_room < 1:
            raise UserError(
                f"model.context = {tools.context} has no room for a source beside what is written",
                topic="recipe",
                hint="Raise model.context, or lower task.most_new.",
            )

    def fit(self, model: Model, *, seed: int) -> Model:
        hint = f"Set model.family to {' or '.join(FAMILIES)}."
        refuse_family(model, (Seq2SeqModel, LanguageModel), hint)
        return model

    def examples(self, record: Record) -> list[Example]:
        source = self.read(record)
        return [self._example(source, text) for text in self.task.references_of(record)]

    def read(self, record: Record) -> list[int]:
        """The tokens that are read before anything is written."""
        tokenizer = self.tools.tokenizer
        kept = tokenizer.encode(self.task.source_of(record))[: self.source_room]
        mark = [tokenizer.require("sep")] if self.in_one_row else []
        return [tokenizer.require("start"), *kept, *mark]

    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = untold,
    ) -> list[Row]:
        sources = [self.read(record) for record in records]
        order = sorted(range(len(sources)), key=lambda number: -len(sources[number]))
        rows = max(1, PLACES_HELD // (self.tools.context * self.task.beams))
        written: dict[int, GeneratedTokens] = {}
        for begin in range(0, len(order), rows):
            numbers = order[begin : begin + rows]
            found = self._written(model, [sources[number] for number in numbers])
            written |= zip(numbers, found, strict=True)
            on_progress(len(written), len(records))
        losses = self._losses(model, records, device=device)
        return [
            self._row(number, record, written[number]) | losses.get(number, {})
            for number, record in enumerate(records)
        ]

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        cut = sum(not row["stopped"] for row in answers)
        told = [
            f"{cut:,} of {len(answers):,} answers did not end within {self.most_new} tokens"
        ] * bool(cut)
        known = [row for row in answers if "truths" in row]
        return (*told, *_the_same_again(known), *self._collapse(known[:TEXTS_LOOKED_AT]))

    def places_to_answer(self, record: Record) -> int:
        examples = self.examples(record)
        written = max((int(example.weights.sum()) for example in examples), default=self.most_new)
        searched = PLACES_A_TOKEN * self.task.beams * written
        return sum(map(places_of, examples)) + len(self.read(record)) + searched

    def lost(self, record: Record) -> int:
        tokenizer, source = self.tools.tokenizer, self.task.source_of(record)
        room = self.tools.context - len(self._begun(self.read(record)))
        texts = tokenizer.encode_many([source, *self.task.references_of(record)])
        rooms = [self.source_room, *[room] * (len(texts) - 1)]
        return sum(max(0, len(ids) - most) for ids, most in zip(texts, rooms, strict=True))

    def _example(self, source: list[int], reference: str) -> Example:
        tokenizer = self.tools.tokenizer
        ids = tokenizer.encode(reference)
        before = self._begun(source)
        kept = ids[: self.tools.context - len(before)]
        weights = np.ones(len(before) + len(kept), dtype=np.float32)
        weights[: len(before) - 1] = 0.0  # given, not told
        if len(kept) < len(ids):
            weights[-1] = 0.0
        return Example(
            np.array([*before, *kept], dtype=np.int64),
            np.array([*before[1:], *kept, tokenizer.require("stop")], dtype=np.int64),
            weights,
            source=None if self.in_one_row else np.array(source, dtype=np.int64),
            smoothing=self.task.smoothing,
        )

    def _begun(self, source: list[int]) -> list[int]:
        """What stands in a row before its target."""
        return source if self.in_one_row else [self.tools.tokenizer.require("start")]

    def _written(self, model: Model, sources: Sequence[list[int]]) -> list[GeneratedTokens]:
        tokenizer = self.tools.tokenizer
        writer, begun = writer_of(model, sources, tokenizer)
        return generate(
            writer,
            begun,
            strategy=self._strategy,
            max_new=self.most_new,
            stop=tokenizer.require("stop"),
            pad=tokenizer.padding,
            forbidden=never_written(tokenizer),
        )

    @property
    def _strategy(self) -> Strategy:
        if self.task.beams == 1:
            return Greedy()
        return BeamSearch(width=self.task.beams, length_penalty=self.task.length_penalty)

    @torch.inference_mode()
    def _losses(
        self, model: Model, records: Sequence[Record], *, device: str
    ) -> dict[int, dict[str, float]]:
        """The mean loss of a token of what was to be written, of each record that says it."""
        owners, examples = [], []
        for number, record in enumerate(records):
            for example in self.examples(record):
                owners.append(number)
                examples.append(example)
        sums = np.zeros((2, len(records)))
        pad = self.tools.tokenizer.padding
        for numbers, batch in batches_of(examples, pad=pad, device=device) if examples else ():
            losses = model.losses(batch).double() * batch.weights
            both = torch.stack((losses.sum(dim=1), batch.weights.double().sum(dim=1)))
            np.add.at(sums.T, [owners[number] for number in numbers], both.T.cpu().numpy())
        return {
            number: {"loss": float(total / tokens)}
            for number, (total, tokens) in enumerate(sums.T)
            if tokens
        }

    def _row(self, number: int, record: Record, one: GeneratedTokens) -> dict[str, object]:
        source, references = self.task.source_of(record), self.task.references_of(record)
        row: dict[str, object] = {
            "item": number,
            "predicted": self.tools.tokenizer.decode(one.ids).strip(),
            "confidence": math.exp(one.logprob / max(1, len(one.ids) + one.stopped)),
            "stopped": one.stopped,
            "source_words": len(source.split()),
        }
        return row | ({"truths": references} if references else {})

    def _collapse(self, answers: Sequence[Row]) -> tuple[str, ...]:
        """What real texts are not like: the references, as the measure."""
        tokenizer = self.tools.tokenizer
        ours = tokenizer.encode_many([row["predicted"] for row in answers])
        real = tokenizer.encode_many([row["truths"][0] for row in answers])
        return sample_health(ours, real, unknown=tokenizer.unk).flags


def _the_same_again(answers: Sequence[Row]) -> tuple[str, ...]:
    """One sentence as the answer to many sources, where no reference stands so often."""
    if not answers:
        return ()
    [(text, times)] = Counter(row["predicted"] for row in answers).most_common(1)
    [(_, real)] = Counter(row["truths"][0] for row in answers).most_common(1)
    if not text or times < max(3, 0.05 * len(answers)) or times <= 3 * real:
        return ()
    return (
        f"{text[:60]!r} is the answer to {times:,} of {len(answers):,} sources; no reference "
        f"stands more than {real:,} times",
    )


def texts_in(record: Record, role: str) -> list[str]:
    """The texts of a role that holds one or several; those without a word are left out."""
    value = record.get(role, [])
    return [text for text in ([value] if isinstance(value, str) else value) if text.strip()]
