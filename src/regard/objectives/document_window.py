"""One document as an objective rearranges it: its tokens, and the length its example may have.

Packed rows, which join several documents, are refused: these objectives need one document a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from regard.batch import Example, Ints
from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.objectives.vocabulary import Vocabulary


class DocumentWindow(NamedTuple):
    """A document, or the chunk of it that one row holds."""

    ids: Ints
    "Without <start> and <stop>."
    starts_document: bool
    "Whether the first token is the document's first."
    max_length: int
    "Maximum positions of the example."


def document_window(
    document: Document, *, vocabulary: Vocabulary, objective: str, min_context: int
) -> DocumentWindow:
    """The single document of a row; a context below `min_context` is refused."""
    if document.segments is not None:
        raise UserError(
            f"the {objective} objective makes each example from one document, but packed rows "
            "join several",
            topic="objective",
            hint='Set train.batches = "padded" or "bucketed".',
        )
    check_context(document.max_length, objective=objective, min_context=min_context)
    ids = document.ids
    starts_document = len(ids) > 0 and int(ids[0]) == vocabulary.start
    ids = ids[1:] if starts_document else ids
    ids = ids[:-1] if len(ids) and int(ids[-1]) == vocabulary.stop else ids
    return DocumentWindow(ids, starts_document, document.max_length)


def document_rows(ids: Ints, *, context: int, vocabulary: Vocabulary) -> Iterator[tuple[int, Ints]]:
    """`<start> document <stop>` in rows of `context` tokens, each with the index of its first token
    in the document; −1 for the first row, because <start> comes before the document's tokens."""
    wrapped = np.concatenate(([vocabulary.start], ids, [vocabulary.stop])).astype(np.int64)
    for begin in range(0, len(wrapped), context):
        yield begin - 1, wrapped[begin : begin + context]


def check_context(context: int, *, objective: str, min_context: int) -> None:
    if context < min_context:
        raise UserError(
            f"model.context = {context} is too short for an example of the {objective} objective",
            topic="objective",
            hint=f"Set model.context = {min_context} or more.",
        )


def causal_example(row: Ints, scored: slice | Ints) -> Example:
    """Next-token prediction over a row, with loss only on the tokens that `scored` indexes."""
    weights = np.zeros(len(row), dtype=np.float32)
    weights[scored] = 1.0
    return Example(inputs=row[:-1], targets=row[1:], weights=weights[1:])
