"""Masked image modelling: masked patches are predicted from the other patches and the words.

    [CLS] question [SEP] patch_0 ▢ patch_2 …  ─►  encoder  ─►  the pixels of ▢

Training draws a new mask each time (dynamic masking); evaluation masks the same patches for every
model, a function of the row alone. A question-answering recipe can `init_from` a model pretrained
on this task.
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
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.pixels import MEAN_SQUARED_ERROR, PixelMetric
from regard.models.blocks.patch_embedding import PatchArray
from regard.models.model import TokenModel
from regard.models.task_models.patch_model import PATCH, MaskedPatchModel, PatchHead
from regard.objectives.masked_patches import (
    choose_patches,
    mask_patches,
    masked_indices,
    restore_patches,
)
from regard.tasks import TASKS, Problem, TaskState, Tools, predict_examples
from regard.tasks.vision.images import ImageTask

DECIMALS = 4
"Decimals of the pixel values stored for each item; pixels go from 0 to 1."


@TASKS.add("patches", families=("encoder",))
class Patches(ImageTask):
    """Predict masked patches of an image: self-supervised pretraining."""

    masking_rate: float = Field(default=0.25, gt=0.0, lt=1.0)
    "Fraction of an image's patches that is masked; at least one patch is."

    column_roles: ClassVar = ("image",)
    optional_roles: ClassVar = ("question",)
    target_roles: ClassVar = ()
    score_names: ClassVar = (MEAN_SQUARED_ERROR,)

    def restore_problem(self, state: TaskState, tools: Tools) -> PatchesProblem:
        return PatchesProblem(self, tools)


class PatchesProblem(Problem[MaskedPatchModel]):
    def __init__(self, task: Patches, tools: Tools) -> None:
        super().__init__(tools)
        self.task = task
        self.metric = PixelMetric()

    def attach_head(self, model: TokenModel, *, seed: int) -> MaskedPatchModel:
        self.task.check_patches(model)
        head = PatchHead(model.head.width, patch_dim=model.patch_dim)
        return MaskedPatchModel(model, head, seed=seed)

    def examples(self, record: Record) -> list[Example]:
        """The row with its evaluation mask."""
        sequence = self.task.build_input(record, self.tools)
        ids = np.asarray(sequence.ids, dtype=np.int64)
        segments = np.asarray(sequence.segments, dtype=np.int64)
        weights = np.zeros(len(ids), dtype=np.float32)
        unmasked = self.task.add_image(Example(ids, ids, weights, segments), record)
        return [self._mask(unmasked, self._record_generator(record))]

    def randomise(self, example: Example, generator: np.random.Generator) -> Example:
        visible, labels = _require(example.patches), _require(example.labels)
        patches = restore_patches(visible, labels.reshape(-1, visible.shape[1]))
        return self._mask(replace(example, patches=patches), generator)

    def answer(
        self,
        model: MaskedPatchModel,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        examples = [example for record in records for example in self.examples(record)]
        with torch.inference_mode():
            predictions = predict_examples(
                examples,
                lambda batch: model.predict_patches(batch).cpu().double().numpy(),
                pad=self.tools.tokenizer.padding_id,
                device=device,
                on_progress=on_progress,
            )
        return [
            _row(item, example, patches)
            for item, (example, patches) in enumerate(zip(examples, predictions, strict=True))
        ]

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        mean = np.mean([self.task.extract_patches(record) for record in train], axis=0)
        yield (
            "mean image",
            {split: self._constant_rows(mean, rows) for split, rows in evaluated.items()},
        )

    def truncated_tokens(self, record: Record) -> int:
        return self.task.build_input(record, self.tools).truncated

    def _constant_rows(self, image: PatchArray, records: Sequence[Record]) -> list[Row]:
        """Result rows that predict the same image for every record."""
        examples = [example for record in records for example in self.examples(record)]
        return [
            _row(item, example, image[masked_indices(_require(example.patches))])
            for item, example in enumerate(examples)
        ]

    def _mask(self, example: Example, generator: np.random.Generator) -> Example:
        """The example with some patches masked, as targets."""
        patches, positions = _require(example.patches), _patch_positions(example)
        masked = choose_patches(
            len(patches), masking_rate=self.task.masking_rate, generator=generator
        )
        visible, targets = mask_patches(patches, masked)
        weights = np.zeros(len(example.inputs), dtype=np.float32)
        weights[positions[masked]] = 1.0
        return replace(example, patches=visible, labels=targets.ravel(), weights=weights)

    def _record_generator(self, record: Record) -> np.random.Generator:
        digest = hashlib.sha256(self.task.identity_text(record).encode()).digest()
        return np.random.default_rng(list(digest))


def _row(item: int, example: Example, predicted: PatchArray) -> Row:
    """Predicted and true values of an item's masked patches."""
    truth, visible = _require(example.labels), _require(example.patches)
    return {
        "item": item,
        "masked": masked_indices(visible).tolist(),
        "predicted": _rounded(predicted),
        "truth": _rounded(truth),
        "loss": float(np.square(predicted.ravel() - truth).mean()),
    }


def _rounded(values: PatchArray) -> list[float]:
    return [round(float(value), DECIMALS) for value in values.flat]


def _patch_positions(example: Example) -> Ints:
    assert example.modalities is not None
    return np.flatnonzero(example.modalities == PATCH)


def _require(values: PatchArray | None) -> PatchArray:
    assert values is not None
    return values
