"""Masked patches: hidden squares of a picture are told from the rest and the words beside it.

    [CLS] question [SEP] patch_0 ▢ patch_2 …  ─►  encoder  ─►  the pixels of ▢

Which squares are hidden is drawn anew whenever a row is trained on. Rows that are judged hide the
same ones for every model: a function of the row alone. A recipe that answers questions can `start`
from one that learnt this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field

from regard.batch import Example, Ints
from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.pixels import METRIC, PixelMetric
from regard.models.heads.patches import Numbers
from regard.models.model import Model
from regard.models.task_models.patch_model import PATCH, MaskedPatchModel, PatchHead
from regard.objectives.masked_patches import chosen_patches, hidden_in, hide, reveal
from regard.tasks import TASKS, OnProgress, Problem, TaskState, Tools, told_of, untold
from regard.tasks.vision.images import ImageTask

DECIMALS = 4
"Of the pixels that are written for each item; ink goes from 0 to 1."


@TASKS.add("patches", families=("encoder",))
class Patches(ImageTask):
    """Tell hidden patches of a picture: a way to pretrain without answers."""

    share: float = Field(default=0.25, gt=0.0, lt=1.0)
    "Share of a picture's patches that are hidden; at least one is."

    columns_wanted: ClassVar = ("image",)
    columns_optional: ClassVar = ("question",)
    columns_told: ClassVar = ()
    metrics: ClassVar = (METRIC,)

    def open(self, train: Sequence[Record], tools: Tools) -> PatchesProblem:
        return PatchesProblem(self, tools)

    def reopen(self, learnt: TaskState, tools: Tools) -> PatchesProblem:
        return PatchesProblem(self, tools)


class PatchesProblem(Problem):
    def __init__(self, task: Patches, tools: Tools) -> None:
        super().__init__(tools)
        self.task = task
        self.measure = PixelMetric()

    def fit(self, model: Model, *, seed: int) -> Model:
        reader = self.task.reader(model)
        width = reader.head.width
        return MaskedPatchModel(
            reader, PatchHead(width, patch_values=reader.patch_values), seed=seed
        )

    def examples(self, record: Record) -> list[Example]:
        """The row as it is judged."""
        packed = self.task.pack(record, self.tools)
        ids = np.asarray(packed.ids, dtype=np.int64)
        segments = np.asarray(packed.segments, dtype=np.int64)
        weights = np.zeros(len(ids), dtype=np.float32)
        whole = self.task.pictured(Example(ids, ids, weights, segments), record)
        return [self._hiding(whole, self._own_generator(record))]

    def drawn(self, example: Example, generator: np.random.Generator) -> Example:
        shown, labels = _given(example.patches), _given(example.labels)
        patches = reveal(shown, labels.reshape(-1, shown.shape[1]))
        return self._hiding(replace(example, patches=patches), generator)

    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = untold,
    ) -> list[Row]:
        assert isinstance(model, MaskedPatchModel)
        examples = [example for record in records for example in self.examples(record)]
        with torch.inference_mode():
            told = told_of(
                examples,
                lambda batch: model.told(batch).double().cpu().numpy(),
                pad=self.tools.tokenizer.padding,
                device=device,
                on_progress=on_progress,
            )
        return [
            _row(number, example, patches)
            for number, (example, patches) in enumerate(zip(examples, told, strict=True))
        ]

    def baselines(
        self, train: Sequence[Record], judged: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        mean = np.mean([self.task.cut(record) for record in train], axis=0)
        yield "mean image", {part: self._always(mean, rows) for part, rows in judged.items()}

    def lost(self, record: Record) -> int:
        return self.task.pack(record, self.tools).lost

    def _always(self, image: Numbers, records: Sequence[Record]) -> list[Row]:
        examples = [example for record in records for example in self.examples(record)]
        return [
            _row(number, example, image[hidden_in(_given(example.patches))])
            for number, example in enumerate(examples)
        ]

    def _hiding(self, example: Example, generator: np.random.Generator) -> Example:
        """The same row with some patches hidden and to be told."""
        patches, places = _given(example.patches), _patch_places(example)
        chosen = chosen_patches(len(patches), share=self.task.share, generator=generator)
        shown, told = hide(patches, chosen)
        weights = np.zeros(len(example.inputs), dtype=np.float32)
        weights[places[chosen]] = 1.0
        return replace(example, patches=shown, labels=told.ravel(), weights=weights)

    def _own_generator(self, record: Record) -> np.random.Generator:
        digest = hashlib.sha256(self.task.known_by(record).encode()).digest()
        return np.random.default_rng(list(digest))


def _row(number: int, example: Example, told: Numbers) -> Row:
    """What was told of an item's hidden patches, and what they hold."""
    true, shown = _given(example.labels), _given(example.patches)
    return {
        "item": number,
        "hidden": hidden_in(shown).tolist(),
        "predicted": _written(told),
        "truth": _written(true),
        "loss": float(np.square(told.ravel() - true).mean()),
    }


def _written(values: Numbers) -> list[float]:
    return [round(float(value), DECIMALS) for value in values.flat]


def _patch_places(example: Example) -> Ints:
    assert example.modalities is not None
    return np.flatnonzero(example.modalities == PATCH)


def _given(values: Numbers | None) -> Numbers:
    assert values is not None
    return values
