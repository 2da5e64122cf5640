"""Byte-pair encoding: start with bytes or characters, repeatedly merge the most frequent pair.

    next merge = argmax over (a, b) of count(ab);  encoding applies the merges in that order

Sennrich, Haddow and Birch, 2016; byte-level: Radford et al., 2019.
"""

from __future__ import annotations

from collections.abc import Iterator

import tokenizers
from pydantic import Field
from tokenizers import decoders, models, pre_tokenizers, trainers

from regard.core.progress import OnProgress
from regard.data.tokenizers import (
    TOKENIZERS,
    SubwordKind,
    metaspace_pre_tokenizer,
)
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer


@TOKENIZERS.add("bpe", keeps="text")
class Bpe(SubwordKind):
    """Byte-pair encoding: merges the most frequent pair; byte-level, nothing is unknown."""

    bytes: bool = True
    "Start with the 256 bytes; false starts with the text's characters, others become <unk>."
    minimum_count: int = Field(default=2, ge=1)
    "Less frequent pairs are never merged."

    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        engine = _byte_level() if self.bytes else _character_level()
        trainer = trainers.BpeTrainer(
            vocab_size=self.max_pieces,
            min_frequency=self.minimum_count,
            special_tokens=list(SPECIALS),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()) if self.bytes else [],
            show_progress=False,
        )
        engine.train_from_iterator(texts, trainer)
        return self.check_size(Tokenizer(engine, name="bpe"))


def _byte_level() -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    return engine


def _character_level() -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    engine.pre_tokenizer = metaspace_pre_tokenizer()
    engine.decoder = decoders.Metaspace()
    return engine
