"""Rows with a picture: how a column of pixels becomes patches behind the words of a row.

    [CLS] question [SEP] patch_0 … patch_{p−1}        segments and modalities 0 … 0 1 … 1

A picture is a list of numbers row by row, a list of rows, or either as text, as CSV holds it.
Shapes: p patches, k numbers in each.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from regard.batch import Example
from regard.core.errors import UserError
from regard.data.packing import Packed, one
from regard.data.record_corpus import Record
from regard.models.heads.patches import Numbers, cut
from regard.models.model import Model
from regard.models.task_models.patch_model import PATCH, PatchEncoder
from regard.tasks import Task, Tools


class ImageTask(Task):
    """What tasks on pictures share: where the pixels are, and how they are cut."""

    question: str = "question"
    "The column that holds the words."
    image: str = "image"
    "The column that holds the pixels of a square image, row by row."
    image_side: int = Field(default=8, ge=1)
    "Pixels along each side of an image."
    patch_side: int = Field(default=2, ge=1)
    "Pixels along each side of a patch; the model needs patch_values = patch_side²."
    full_ink: float = Field(default=16.0, gt=0.0)
    "The largest value of a pixel; values are divided by it."

    columns_hold: ClassVar = {"question": "text", "image": "value"}

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        if self.image_side % self.patch_side:
            raise ValueError(
                f"patch_side = {self.patch_side} does not divide image_side = {self.image_side}"
            )
        return self

    @property
    def patches(self) -> int:
        """How many an image has."""
        return (self.image_side // self.patch_side) ** 2

    def texts(self, record: Record) -> list[str]:
        return [record["question"]] if "question" in record else []

    def known_by(self, record: Record) -> str:
        # Many images are asked the same: only words and pixels together make a row.
        pixels = ",".join(f"{value:g}" for value in self.pixels(record).flat)
        return " ".join([*self.texts(record), pixels])

    def check(self, record: Record) -> None:
        self.pixels(record)

    def pixels(self, record: Record) -> Numbers:
        """(side, side), from 0 to 1."""
        side, full = self.image_side, self.full_ink
        try:
            values = np.asarray(_listed(record["image"]), dtype=np.float32)
        except (TypeError, ValueError):
            raise self._refusal(record, "holds no numbers") from None
        if values.shape not in ((side * side,), (side, side)):
            found = " × ".join(map(str, values.shape))
            raise self._refusal(
                record, f"holds {found} numbers where image_side = {side} takes {side * side}"
            )
        if not bool(((values >= 0) & (values <= full)).all()):
            raise self._refusal(
                record,
                f"holds {values.min():g} to {values.max():g} where ink goes from 0 to "
                f"full_ink = {full:g}",
            )
        return values.reshape(side, side) / np.float32(full)

    def cut(self, record: Record) -> Numbers:
        """(p,k): the patches of a row's picture."""
        return cut(self.pixels(record), side=self.patch_side)

    def pack(self, record: Record, tools: Tools) -> Packed:
        """The row that the model reads; at patches it holds padding, which they take the place
        of."""
        words = tools.tokenizer.encode(" ".join(self.texts(record)))
        read = one(words, tools.tokenizer, limit=self._room(tools.context))
        behind = (tools.tokenizer.padding,) * self.patches
        return Packed(read.ids + behind, read.segments + (PATCH,) * self.patches, read.lost)

    def pictured(self, example: Example, record: Record) -> Example:
        """A packed row with its picture."""
        return replace(example, modalities=example.segments, patches=self.cut(record))

    def reader(self, model: Model) -> PatchEncoder:
        """The model, where it reads patches of this size."""
        values = self.patch_side**2
        if not isinstance(model, PatchEncoder) or model.patch_values != values:
            raise UserError(
                f"this task's patches hold {values} numbers, and the model reads "
                + (f"{model.patch_values}" if isinstance(model, PatchEncoder) else "words alone"),
                topic="recipe",
                hint=f'Set model.family = "encoder" and model.patch_values = {values}.',
            )
        return model

    def _room(self, context: int) -> int:
        """Places that are left for words."""
        fewest = self.patches + 3  # [CLS], a word and [SEP] beside them
        if context < fewest:
            raise UserError(
                f"model.context = {context} has no room for words beside {self.patches} patches",
                topic="recipe",
                hint=f"Set model.context = {fewest} or more, or a larger task.patch_side.",
            )
        return context - self.patches

    def _refusal(self, record: Record, what: str) -> UserError:
        return UserError(
            f"{self.image!r} {what}",
            topic="data",
            where=getattr(record, "at", ""),
            hint="Set task.image, task.image_side and task.full_ink to what the data hold, or mend "
            "the row.",
        )


def _listed(value: Any) -> Any:
    """Text as the list it spells: JSON, or numbers with spaces or commas between."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [float(word) for word in re.split(r"[\s,;]+", value.strip())]
