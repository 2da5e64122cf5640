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


class TokenizerKind(Settings, ABC):
    """Settings that train a tokenizer."""

    sentinels: int = Field(default=0, ge=0)
    "Sentinel tokens <extra_0>, <extra_1>, … for masked spans, in addition to the vocabulary."

    def train(self, texts: Iterator[str], *, on_progress: OnProgress = no_progress) -> Tokenizer:
        """Train on `texts`, read once; `on_progress` receives the texts read or pieces learned."""
        learned = self.learn(_nonblank_texts(texts, on_progress), on_progress=on_progress)
        return learned.with_sentinels(self.sentinels)

    @abstractmethod
    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        """Train on texts that are not blank, before sentinels are added."""


class SubwordKind(TokenizerKind):
    """Settings that train a tokenizer of word pieces."""

    vocabulary: int | None = Field(default=None, ge=len(SPECIALS) + 1)
    "Number of pieces, special tokens included; by default 8,000, or fewer if the text has fewer."

    @property
    def max_pieces(self) -> int:
        return self.vocabulary or DEFAULT_VOCABULARY

    def check_size(self, tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer, if it has the requested size; without one, at most the default size."""
        if self.vocabulary is not None:
            check_filled(tokenizer, self.vocabulary)
        if tokenizer.size > self.max_pieces:
            raise vocabulary_too_small(self.max_pieces, needed=tokenizer.size)
        return tokenizer


class VocabularyNotFilledError(UserError):
    """The text has fewer pieces than requested; `filled` is their number."""

    def __init__(self, *, requested: int, filled: int) -> None:
        super().__init__(
            f"vocabulary = {requested:,} but this text fills only {filled:,} pieces",
            topic="tokenizer",
            hint=f"Set tokenizer.vocabulary = {filled} or less, or give more text.",
        )
        self.filled = filled


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


def check_filled(tokenizer: Tokenizer, vocabulary: int) -> None:
    if tokenizer.size < vocabulary:
        raise VocabularyNotFilledError(requested=vocabulary, filled=tokenizer.size)


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
