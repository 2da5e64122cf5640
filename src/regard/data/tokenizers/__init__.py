"""The tokenizer kinds: each file holds one, as settings that can be trained on text.

A kind reads its texts once, as a stream, and gives a `Tokenizer` whose first seven ids are the
specials. A property says what its round trip keeps: `text` (everything it has characters for) or
`words` (spacing may change).
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
"Pieces of a kind that has a size, where the recipe does not say; fewer where text is short."

OnProgress = Callable[[int, int | None], None]


def no_progress(done: int, total: int | None) -> None:
    """Nobody watches."""


class TokenizerKind(Settings, ABC):
    """Settings from which a tokenizer comes."""

    sentinels: int = Field(default=0, ge=0)
    "Special tokens <extra_0>, <extra_1>, … for hidden spans, beside the vocabulary (see spans)."

    def train(self, texts: Iterator[str], *, on_progress: OnProgress = no_progress) -> Tokenizer:
        """Read `texts` once; `on_progress` is told how many were read, or pieces were found."""
        return self.learn(texts, on_progress=on_progress).with_sentinels(self.sentinels)

    @abstractmethod
    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        """`train`, before sentinels are added."""


class VocabularyNotFilledError(UserError):
    """The text holds fewer pieces than were asked for; `filled` is how many it has."""

    def __init__(self, *, asked: int, filled: int) -> None:
        super().__init__(
            f"vocabulary = {asked:,} but this text fills only {filled:,} pieces",
            topic="tokenizer",
            hint=f"Set tokenizer.vocabulary = {filled} or less, or give more text.",
        )
        self.filled = filled


def nonblank_texts(texts: Iterator[str], on_progress: OnProgress) -> Iterator[str]:
    """The texts that hold anything, counted as they pass; none at all is an error."""
    read = 0
    for text in texts:
        if text and not text.isspace():
            read += 1
            yield text
            if read % 256 == 0:
                on_progress(read, None)
    if not read:
        raise UserError(
            "the training part holds no text, so there is nothing to learn pieces from",
            topic="tokenizer",
            hint="Give more documents (a split needs several), or check data.corpus and data.text.",
        )
    on_progress(read, None)


def check_vocabulary_size(tokenizer: Tokenizer, *, vocabulary: int | None) -> Tokenizer:
    """The tokenizer, if it has the size that was asked for; None asked for no certain size."""
    if vocabulary is not None and tokenizer.size < vocabulary:
        raise VocabularyNotFilledError(asked=vocabulary, filled=tokenizer.size)
    if tokenizer.size > (vocabulary or DEFAULT_VOCABULARY):
        raise vocabulary_too_small(vocabulary or DEFAULT_VOCABULARY, needed=tokenizer.size)
    return tokenizer


def vocabulary_too_small(vocabulary: int, *, needed: int) -> UserError:
    return UserError(
        f"vocabulary = {vocabulary:,} cannot hold this text's single characters "
        f"and the specials, which are {needed:,} pieces",
        topic="tokenizer",
        hint=f"Set tokenizer.vocabulary = {needed} or more.",
    )


def metaspace_pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    """Words keep the space before them as `▁`, so that text can be put together again.

    Punctuation stands alone, so no piece can be learned that spells a special like `<stop>`.
    """
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(),
            pre_tokenizers.Punctuation("isolated"),
            pre_tokenizers.Split("\n", "isolated"),
        ]
    )
