"""The token ids an objective works with, and properties of the text behind each.

Built once for a tokenizer; properties of the pieces are computed on first use, as arrays by id.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regard.batch import Ints
from regard.core.errors import UserError
from regard.data.tokenizers.piece_text import REPLACEMENT_CHARACTER
from regard.data.tokenizers.tokenizer import Tokenizer

Bools = NDArray[np.bool_]

WORD_JOINERS = frozenset(f"-'’_{REPLACEMENT_CHARACTER}")
"Characters inside words, where no space is next to them; half a character is one too."


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Token ids by role; compared by identity, so that caches may hold it."""

    size: int
    start: int
    stop: int
    mask: int | None
    specials: frozenset[int]
    "Tokens that are no text: never masked, never drawn. <unk> stands for text, so it is not here."
    pieces: tuple[str, ...] = ()
    "The plain text of each id, with a space before what begins a word; empty: each id is a word."
    sentinels: tuple[int, ...] = ()
    "Replace masked spans, in order."
    sep: int | None = None
    filler: int = 0
    "Fills positions without text: <pad>, or <start> where there is none."

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> Vocabulary:
        roles = ("pad", "unk", "start", "stop", "cls", "sep", "mask")
        special = {id_ for role in roles if (id_ := getattr(tokenizer, role)) is not None}
        return cls(
            size=tokenizer.size,
            start=tokenizer.require("start"),
            stop=tokenizer.require("stop"),
            mask=tokenizer.mask,
            specials=frozenset((special | set(tokenizer.sentinels)) - {tokenizer.unk}),
            pieces=tokenizer.pieces,
            sentinels=tokenizer.sentinels,
            sep=tokenizer.sep,
            filler=tokenizer.require("start") if tokenizer.pad is None else tokenizer.pad,
        )

    def require_mask(self, objective: str) -> int:
        """The id of [MASK], or an error that names the objective."""
        if self.mask is None:
            raise UserError(
                f"this tokenizer has no [MASK] token, which the {objective} objective needs",
                topic="objective",
                hint="Train a tokenizer with regard, or choose another objective.",
            )
        return self.mask

    def require_sentinels(self, objective: str, *, count: int) -> Ints:
        """The first `count` sentinels, or an error that says how to get that many."""
        if count > len(self.sentinels):
            raise UserError(
                f"the {objective} objective masks {count} spans of a row, and the tokenizer has "
                f"{len(self.sentinels) or 'no'} sentinels to replace them",
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
    def starts_word(self) -> Bools:
        """The piece begins with a space, so it begins a word whatever comes before."""
        return np.array([text[:1].isspace() for text in self.texts], dtype=np.bool_)

    @cached_property
    def is_blank(self) -> Bools:
        return np.array([text.isspace() for text in self.texts], dtype=np.bool_)

    @cached_property
    def can_continue_word(self) -> Bools:
        """The first character can be inside a word."""
        return np.array([_is_word_character(text[:1]) for text in self.texts], dtype=np.bool_)

    @cached_property
    def can_be_continued(self) -> Bools:
        """The last character can be followed by more of the word."""
        return np.array([_is_word_character(text[-1:]) for text in self.texts], dtype=np.bool_)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The piece of every id; a placeholder word where no pieces are given."""
        return self.pieces or (" ?",) * self.size


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character in WORD_JOINERS if character else False
