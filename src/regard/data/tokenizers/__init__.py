"""Tokenizer kinds: one file each, settings that train a tokenizer on text.

A kind streams its texts once and returns a `Tokenizer` whose first seven ids are special tokens.
The property `keeps` says what survives encoding and decoding: `text` (everything that it has
characters for) or `words` (spacing may change).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from pydantic import Field
from tokenizers import pre_tokenizers

from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.settings import Settings
from regard.data.tokenizers.tokenizer import Tokenizer

TOKENIZERS = Catalog("tokenizer", home="regard.data.tokenizers")

DEFAULT_VOCABULARY = 8000
"Vocabulary size if the recipe gives none; smaller if the text has fewer pieces."

OnProgress = Callable[[int, int | None], None]


def no_progress(done: int, total: int | None) -> None:
    """A progress callback that does nothing."""


class TokenizerKind(Settings, ABC):
    """Settings that train a tokenizer."""

    sentinels: int = Field(default=0, ge=0)
    "Sentinel tokens <extra_0>, <extra_1>, … for masked spans, in addition to the vocabulary."

    def train(self, texts: Iterator[str], *, on_progress: OnProgress = no_progress) -> Tokenizer:
        """Train on `texts`, read once; `on_progress` receives the texts read or pieces learned."""
        return self.learn(texts, on_progress=on_progress).with_sentinels(self.sentinels)

    @abstractmethod
    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        """`train`, before sentinels are added."""


class VocabularyNotFilledError(UserError):
    """The text has fewer pieces than requested; `filled` is their number."""

    def __init__(self, *, requested: int, filled: int) -> None:
        super().__init__(
            f"vocabulary = {requested:,} but this text fills only {filled:,} pieces",
            topic="tokenizer",
            hint=f"Set tokenizer.vocabulary = {filled} or less, or give more text.",
        )
        self.filled = filled


def nonblank_texts(texts: Iterator[str], on_progress: OnProgress) -> Iterator[str]:
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


def check_vocabulary_size(tokenizer: Tokenizer, *, vocabulary: int | None) -> Tokenizer:
    """The tokenizer, if it has the requested size; with None, at most the default size."""
    if vocabulary is not None and tokenizer.size < vocabulary:
        raise VocabularyNotFilledError(requested=vocabulary, filled=tokenizer.size)
    if tokenizer.size > (vocabulary or DEFAULT_VOCABULARY):
        raise vocabulary_too_small(vocabulary or DEFAULT_VOCABULARY, needed=tokenizer.size)
    return tokenizer


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
