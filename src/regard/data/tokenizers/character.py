"""Character-level tokenizer: one id per character, spaces and line breaks included; lossless."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import tokenizers
from pydantic import Field
from tokenizers import Regex, decoders, models, pre_tokenizers

from regard.core.progress import OnProgress
from regard.data.tokenizers import TOKENIZERS, TokenizerKind
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer


@TOKENIZERS.add("character", keeps="text")
class Character(TokenizerKind):
    """Character-level: one id per character; characters not seen in training become <unk>."""

    minimum_count: int = Field(default=1, ge=1)
    "Less frequent characters become <unk>."

    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text)
        alphabet = sorted(c for c, count in counts.items() if count >= self.minimum_count)
        ids = {piece: i for i, piece in enumerate((*SPECIALS, *alphabet))}
        engine = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
        engine.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        engine.decoder = decoders.Fuse()
        engine.add_special_tokens(list(SPECIALS))
        return Tokenizer(engine, name="character")
