"""Word-level tokenizer: one id per word; words that are rare or beyond the size become <unk>."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import tokenizers
from pydantic import Field
from tokenizers import Regex, models, pre_tokenizers, trainers

from regard.core.progress import OnProgress
from regard.data.tokenizers import MAX_VOCABULARY, TOKENIZERS, TokenizerKind
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer

NO_LIMIT = 2**31 - 1


@TOKENIZERS.add("word", keeps="words")
class Word(TokenizerKind):
    """Word-level: one id per word, rare words become <unk>; spacing and line breaks are lost."""

    vocabulary: int | None = Field(default=None, ge=len(SPECIALS) + 1, le=MAX_VOCABULARY)
    "Maximum number of words, special tokens included; by default all that reach minimum_count."
    minimum_count: int = Field(default=2, ge=1)
    "Less frequent words become <unk>, so that a model is trained on unknown words."
    punctuation: Literal["apart", "attached"] = "apart"
    "`apart` makes punctuation separate words; `attached` splits at spaces only."

    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        engine = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
        engine.pre_tokenizer = _pre_tokenizer(self.punctuation)
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocabulary or NO_LIMIT,
            min_frequency=self.minimum_count,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        engine.train_from_iterator(texts, trainer)
        return Tokenizer(engine, name="word")

    @property
    def requested_pieces(self) -> int | None:
        return self.vocabulary


def _pre_tokenizer(punctuation: Literal["apart", "attached"]) -> pre_tokenizers.PreTokenizer:
    if punctuation == "apart":
        return pre_tokenizers.Whitespace()
    # A word that spells a special token would get its id, so its bracket is split off. Only <unk>
    # passes: a corpus that contains it means an unknown word.
    brackets = pre_tokenizers.Split(
        Regex(r"[<\[](?=(?:pad|start|stop)>|(?:CLS|SEP|MASK)\])"), "isolated"
    )
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), brackets])
