"""An existing tokenizer: tokenizer.json, a WordPiece vocab.txt, or a folder with one."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from regard.core.progress import OnProgress
from regard.data.tokenizers import TOKENIZERS, TokenizerKind
from regard.data.tokenizers.tokenizer import Tokenizer


@TOKENIZERS.add("file", keeps="words")
class File(TokenizerKind):
    """Loaded from tokenizer.json, vocab.txt or a folder; not trained."""

    path: str = Field(min_length=1)
    "A tokenizer.json, a vocab.txt (lower-casing if it has no capitals), or their folder."

    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        return Tokenizer.load(self.path)
