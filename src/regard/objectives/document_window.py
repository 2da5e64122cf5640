"""One document as an objective takes it apart: its own tokens, and the room for what is made of it.

Rows that join several documents are refused: an example is made of one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from regard.batch import Example, Ints
from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.objectives.vocabulary import Vocabulary


class DocumentWindow(NamedTuple):
    """A document, or what of it fell into one row."""

    ids: Ints
    "Without <start> and <stop>."
    is_opening: bool
    "Whether the document begins with it."
    room: int
    "Places its example may take."


def document_window(
    document: Document, *, vocabulary: Vocabulary, objective: str, least: int
) -> DocumentWindow:
    """The one document of a row; `least` is the room without which nothing can be asked."""
    if document.segments is not None:
        raise UserError(
            f"the {objective} objective makes an example of one document, and packed rows join "
            "several",
            topic="objective",
            hint='Set train.batches = "padded" or "bucketed".',
        )
    check_room(document.room, objective=objective, least=least)
    ids = document.ids
    is_opening = len(ids) > 0 and int(ids[0]) == vocabulary.start
    ids = ids[1:] if is_opening else ids
    ids = ids[:-1] if len(ids) and int(ids[-1]) == vocabulary.stop else ids
    return DocumentWindow(ids, is_opening, document.room)


def check_room(room: int, *, objective: str, least: int) -> None:
    if room < least:
        raise UserError(
            f"model.context = {room} has no room for an example of the {objective} objective",
            topic="objective",
            hint=f"Set model.context = {least} or more.",
        )


def told_in_row(row: Ints, told: slice | Ints) -> Example:
    """A row read from left to right, of which some tokens count; `told` is counted in the row."""
    weights = np.zeros(len(row), dtype=np.float32)
    weights[told] = 1.0
    return Example(inputs=row[:-1], targets=row[1:], weights=weights[1:])
