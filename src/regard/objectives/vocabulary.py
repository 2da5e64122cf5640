"""The ids an objective works with, and what is known of the text behind each.

A vocabulary is made once for a tokenizer; what follows from its pieces is worked out when first
asked for, as arrays by id.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regard.batch import Ints
from regard.core.errors import UserError
from regard.data.tokenizers.spelling import UNREADABLE
from regard.data.tokenizers.tokenizer import Tokenizer

Bools = NDArray[np.bool_]

JOINERS = frozenset(f"-'’_{UNREADABLE}")
"Characters inside words, where no space stands beside them; half a character is one too."


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The tokens by the parts they play; equal to itself alone, so that caches may hold it."""

    size: int
    start: int
    stop: int
    mask: int | None
    specials: frozenset[int]
    "No text: never hidden, never drawn. <unk> stands for text, so it is none."
    pieces: tuple[str, ...] = ()
    "The plain text of each id, a space before what begins a word; none: each id is a word."
    sentinels: tuple[int, ...] = ()
    "Stand for hidden spans, in order."
    sep: int | None = None
    filler: int = 0
    "Stands where nothing is said: <pad>, or <start> where there is none."

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        roles = ("pad", "unk", "start", "stop", "cls", "sep", "mask")
        held = {found for role in roles if (found := getattr(tokenizer, role)) is not None}
        return cls(
            size=tokenizer.size,
            start=tokenizer.require("start"),
            stop=tokenizer.require("stop"),
            mask=tokenizer.mask,
            specials=frozenset((held | set(tokenizer.sentinels)) - {tokenizer.unk}),
            pieces=tokenizer.pieces,
            sentinels=tokenizer.sentinels,
            sep=tokenizer.sep,
            filler=tokenizer.require("start") if tokenizer.pad is None else tokenizer.pad,
        )

    def mask_for(self, objective: str) -> int:
        """The id of [MASK], or an error which says what needs it."""
        if self.mask is None:
            raise UserError(
                f"this tokenizer has no [MASK] token, which the {objective} objective writes",
                topic="objective",
                hint="Train a tokenizer with regard, or choose another objective.",
            )
        return self.mask

    def sentinels_for(self, objective: str, *, count: int) -> Ints:
        """The first `count` sentinels, or an error which says how to get so many."""
        if count > len(self.sentinels):
            raise UserError(
                f"the {objective} objective hides {count} spans of a row, and the tokenizer has "
                f"{len(self.sentinels) or 'no'} sentinels to stand for them",
                topic="objective",
                hint=f"Set tokenizer.sentinels = {max(count, 10)} or more.",
            )
        return np.array(self.sentinels[:count], dtype=np.int64)

    @cached_property
    def ordinary(self) -> Ints:
        """Every id but the special ones."""
        return np.flatnonzero(~self.is_special)

    @cached_property
    def is_special(self) -> Bools:
        special = np.zeros(self.size, dtype=np.bool_)
        special[list(self.specials)] = True
        return special

    @cached_property
    def begins_word(self) -> Bools:
        """A space stands before it, whatever came earlier."""
        return np.array([text[:1].isspace() for text in self.texts], dtype=np.bool_)

    @cached_property
    def is_blank(self) -> Bools:
        return np.array([text.isspace() for text in self.texts], dtype=np.bool_)

    @cached_property
    def goes_on(self) -> Bools:
        """Its first character can stand inside a word."""
        return np.array([_inside(text[:1]) for text in self.texts], dtype=np.bool_)

    @cached_property
    def stays_open(self) -> Bools:
        """Its last character can be followed by more of the word."""
        return np.array([_inside(text[-1:]) for text in self.texts], dtype=np.bool_)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Of every id, also where no pieces are known."""
        return self.pieces or (" ?",) * self.size


def _inside(character: str) -> bool:
    return character.isalnum() or character in JOINERS if character else False
