"""Word-level: one id a word; words seen too seldom, or left out by the size, become <unk>."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import tokenizers
from pydantic import Field
from tokenizers import Regex, models, pre_tokenizers, trainers

from regard.data.tokenizers import (
    TOKENIZERS,
    OnProgress,
    TokenizerKind,
    VocabularyNotFilledError,
    nonblank_texts,
)
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer

EVERY_WORD = 2**31 - 1


@TOKENIZERS.add("word", keeps="words")
class Word(TokenizerKind):
    """Word-level: one id a word, rarer words become <unk>; spacing and line breaks are lost."""

    vocabulary: int | None = Field(default=None, ge=len(SPECIALS) + 1)
    "The most frequent words, specials included; left out, all that reach minimum_count."
    minimum_count: int = Field(default=2, ge=1)
    "Words seen less often become <unk>, so that a model learns what an unknown word is like."
    punctuation: Literal["apart", "attached"] = "apart"
    "`apart` makes punctuation words of its own; `attached` cuts at spaces only."

    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        engine = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
        engine.pre_tokenizer = _cut(self.punctuation)
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocabulary or EVERY_WORD,
            min_frequency=self.minimum_count,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        engine.train_from_iterator(nonblank_texts(texts, on_progress), trainer)
        tokenizer = Tokenizer(engine, name="word")
        if self.vocabulary is not None and tokenizer.size < self.vocabulary:
            raise VocabularyNotFilledError(asked=self.vocabulary, filled=tokenizer.size)
        return tokenizer


def _cut(punctuation: Literal["apart", "attached"]) -> pre_tokenizers.PreTokenizer:
    if punctuation == "apart":
        return pre_tokenizers.Whitespace()
    # A word of the text that spells a special would get its id, so its bracket is cut off. Only
    # <unk> may pass: a corpus that writes it means what we mean.
    spelled = pre_tokenizers.Split(
        Regex(r"[<\[](?=(?:pad|start|stop)>|(?:CLS|SEP|MASK)\])"), "isolated"
    )
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spelled])
