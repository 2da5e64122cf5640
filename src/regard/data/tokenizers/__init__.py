"""Tokenizer kinds: one file each, settings that train a tokenizer on text.

A kind streams its texts once and returns a `Tokenizer` whose first seven ids are special tokens.
The property `keeps` says what survives encoding and decoding: `text` (everything that it has
characters for) or `words` (spacing may change).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from pydantic import Field
from tokenizers import pre_tokenizers

from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.core.settings import Settings
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer

TOKENIZERS = Catalog("tokenizer", home="regard.data.tokenizers")

DEFAULT_VOCABULARY = 8000
"Vocabulary size if the recipe gives none; smaller if the text has fewer pieces."
MAX_VOCABULARY = 10_000_000
"Trainers reserve memory for all pieces before they read a text."


class TokenizerKind(Settings, ABC):
    """Settings that train a tokenizer."""

    sentinels: int = Field(default=0, ge=0, le=10_000)
    "Sentinel tokens <extra_0>, <extra_1>, … for masked spans, in addition to the vocabulary."

    def train(self, texts: Iterator[str], *, on_progress: OnProgress = no_progress) -> Tokenizer:
        """Train on `texts`, read once; `on_progress` receives the texts read or pieces learned."""
        learned = self.learn(_nonblank_texts(texts, on_progress), on_progress=on_progress)
        return learned.with_sentinels(self.sentinels)

    @property
    def requested_pieces(self) -> int | None:
        """The vocabulary that the settings ask for, without sentinels; None where they do not."""
        return None

    def remarks(self, trained: Tokenizer) -> list[str]:
        """Where a trained tokenizer is not what its settings ask for."""
        requested, pieces = self.requested_pieces, trained.size - self.sentinels
        if requested is None or pieces >= requested:
            return []
        return [
            f"tokenizer: tokenizer.vocabulary = {requested:,}, but this text fills only "
            f"{pieces:,} pieces: the tokenizer has these"
        ]

    @abstractmethod
    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        """Train on texts that are not blank, before sentinels are added."""


class SubwordKind(TokenizerKind):
    """Settings that train a tokenizer of word pieces."""

    vocabulary: int | None = Field(default=None, ge=len(SPECIALS) + 1, le=MAX_VOCABULARY)
    "Number of pieces, special tokens included, or fewer if the text has fewer; by default 8,000."

    @property
    def max_pieces(self) -> int:
        return self.vocabulary or DEFAULT_VOCABULARY

    @property
    def requested_pieces(self) -> int | None:
        return self.vocabulary

    def check_size(self, tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer, if it has at most the requested size."""
        if tokenizer.size > self.max_pieces:
            raise vocabulary_too_small(self.max_pieces, needed=tokenizer.size)
        return tokenizer


def _nonblank_texts(texts: Iterator[str], on_progress: OnProgress) -> Iterator[str]:
    """The texts that are not blank, counted for `on_progress`; none at all is an error."""
    read = 0
    for text in texts:
        if text and not text.isspace():
            read += 1
            yield text
            if read % 256 == 0:
                on_progress(read, None)
    if not read:
        raise UserError(
            "the training split has no text to learn pieces from",
            topic="tokenizer",
            hint="Give more documents (a split needs several), or check data.corpus and data.text.",
        )
    on_progress(read, None)


def vocabulary_too_small(vocabulary: int, *, needed: int) -> UserError:
    return UserError(
        f"vocabulary = {vocabulary:,} cannot hold this text's single characters "
        f"and the special tokens, which are {needed:,} pieces",
        topic="tokenizer",
        hint=f"Set tokenizer.vocabulary = {needed} or more.",
    )


def metaspace_pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    """Words keep the space before them as `▁`, so that decoding restores it.

    Punctuation is isolated, so no learned piece can spell a special token like `<stop>`.
    """
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(),
            pre_tokenizers.Punctuation("isolated"),
            pre_tokenizers.Split("\n", "isolated"),
        ]
    )
