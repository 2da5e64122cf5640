"""Image tasks: a column of pixels becomes patches after the words of a row.

    [CLS] question [SEP] patch_0 … patch_{p−1}        segments and modalities 0 … 0 1 … 1

An image is a list of pixel values row by row, a list of rows, or either as text, as in CSV.
Shapes: p patches, k values a patch.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from regard.batch import Example
from regard.core.errors import UserError
from regard.core.untrusted import parse_json
from regard.data.record_corpus import Record
from regard.data.special_tokens import InputSequence, single_sequence
from regard.models.blocks.patch_embedding import PatchArray, patchify
from regard.models.model import TokenModel
from regard.models.task_models.patch_model import PATCH
from regard.tasks import Task, Tools


class ImageTask(Task):
    """Settings of tasks on images: the column of pixels, and how it is cut into patches."""

    question: str = "question"
    "The column that holds the text."
    image: str = "image"
    "The column that holds the pixels of a square image, row by row."
    image_side: int = Field(default=8, ge=1)
    "Pixels along each side of an image."
    patch_side: int = Field(default=2, ge=1)
    "Pixels along each side of a patch; the model needs patch_dim = patch_side²."
    max_pixel: float = Field(default=16.0, gt=0.0)
    "The largest value of a pixel; values are divided by it."

    role_types: ClassVar = {"question": "text", "image": "value"}
    group_role: ClassVar = "image"
    is_same_when_near: ClassVar = False  # near is defined for words, not for pixels

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        if self.image_side % self.patch_side:
            raise ValueError(
                f"patch_side = {self.patch_side} does not divide image_side = {self.image_side}"
            )
        return self

    @property
    def patches(self) -> int:
        """Patches of an image."""
        return (self.image_side // self.patch_side) ** 2

    def texts(self, record: Record) -> list[str]:
        return [record["question"]] if "question" in record else []

    def identity_text(self, record: Record) -> str:
        # Many images have the same question: only text and pixels together identify a row.
        pixels = ",".join(f"{value:g}" for value in self.pixels(record).flat)
        return " ".join([*self.texts(record), pixels])

    def check(self, record: Record) -> None:
        self.pixels(record)

    def pixels(self, record: Record) -> PatchArray:
        """(side, side), scaled to 0 … 1."""
        side, maximum = self.image_side, self.max_pixel
        try:
            values = np.asarray(_parse_values(record["image"]), dtype=np.float32)
        except (TypeError, ValueError):
            raise self._refusal(record, "holds no numbers") from None
        if values.shape not in ((side * side,), (side, side)):
            found = " × ".join(map(str, values.shape))
            raise self._refusal(
                record, f"holds {found} numbers where image_side = {side} takes {side * side}"
            )
        if not bool(((values >= 0) & (values <= maximum)).all()):
            raise self._refusal(
                record,
                f"holds {values.min():g} to {values.max():g} where pixels go from 0 to "
                f"max_pixel = {maximum:g}",
            )
        return values.reshape(side, side) / np.float32(maximum)

    def extract_patches(self, record: Record) -> PatchArray:
        """(p,k): the patches of a row's image."""
        return patchify(self.pixels(record), side=self.patch_side)

    def build_input(self, record: Record, tools: Tools) -> InputSequence:
        """The model's input: words, then padding ids as placeholders of the patches."""
        ids = tools.tokenizer.encode(" ".join(self.texts(record)))
        words = single_sequence(ids, tools.tokenizer, limit=self._max_text_tokens(tools.context))
        placeholders = (tools.tokenizer.padding_id,) * self.patches
        segments = words.segments + (PATCH,) * self.patches
        return InputSequence(words.ids + placeholders, segments, words.truncated)

    def add_image(self, example: Example, record: Record) -> Example:
        """An example with the patches of the row's image."""
        return replace(example, modalities=example.segments, patches=self.extract_patches(record))

    def check_patches(self, model: TokenModel) -> None:
        """Refuse a model that does not embed patches of this size."""
        values = self.patch_side**2
        if model.patch_dim != values:
            raise UserError(
                f"this task's patches hold {values} values, and the model takes "
                + (f"{model.patch_dim}" if model.patch_dim else "only words"),
                topic="recipe",
                hint=f'Set model.family = "encoder" and model.patch_dim = {values}.',
            )

    def _max_text_tokens(self, context: int) -> int:
        """Positions left for text."""
        min_context = self.patches + 3  # [CLS], a word and [SEP] beside the patches
        if context < min_context:
            raise UserError(
                f"model.context = {context} is too short for words beside {self.patches} patches",
                topic="recipe",
                hint=f"Set model.context = {min_context} or more, or a larger task.patch_side.",
            )
        return context - self.patches

    def _refusal(self, record: Record, what: str) -> UserError:
        return UserError(
            f"{self.image!r} {what}",
            topic="data",
            where=getattr(record, "at", ""),
            hint="Set task.image, task.image_side and task.max_pixel to match the data, or fix the "
            "row.",
        )


def _parse_values(value: Any) -> Any:
    """Values as a list; text is JSON, or numbers separated by spaces or commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return parse_json(value)
    return [float(word) for word in re.split(r"[\s,;]+", value.strip())]
