"""Unigram: start with many pieces, prune those that reduce the likelihood least.

encode(text) = argmax over segmentations of Π p(piece);  p fitted by EM        Kudo, 2018
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import tokenizers
from pydantic import Field
from tokenizers import decoders, models, trainers

from regard.core.progress import OnProgress
from regard.data.tokenizers import (
    TOKENIZERS,
    SubwordKind,
    metaspace_pre_tokenizer,
    vocabulary_too_small,
)
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer


@TOKENIZERS.add("unigram", keeps="words")
class Unigram(SubwordKind):
    """Unigram: prunes a large vocabulary; most likely segmentation; loses one leading space.

    A run of characters not seen in training becomes one <unk>.
    """

    max_piece_length: int = Field(default=16, ge=1)
    "Maximum length of a piece in characters."

    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        engine = tokenizers.Tokenizer(models.Unigram())
        engine.pre_tokenizer = metaspace_pre_tokenizer()
        engine.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=self.max_pieces,
            special_tokens=list(SPECIALS),
            unk_token="<unk>",
            max_piece_length=self.max_piece_length,
            show_progress=False,
        )
        alphabet: set[str] = set()
        try:
            engine.train_from_iterator(_collect_characters(texts, alphabet), trainer)
        except Exception as problem:
            # The library raises bare Exception for this; only the message identifies it.
            if "not large enough" not in str(problem):
                raise
            characters = {"▁"} | alphabet - {" "}
            needed = len(SPECIALS) + len(characters)
            raise vocabulary_too_small(self.max_pieces, needed=needed) from None
        pieces = deterministic_scores(
            json.loads(engine.to_str())["model"]["vocab"][len(SPECIALS) :]
        )
        specials = [(special, 0.0) for special in SPECIALS]
        engine.model = models.Unigram(
            specials + prune_pieces(pieces, self.max_pieces - len(SPECIALS)),
            unk_id=SPECIALS.index("<unk>"),
            byte_fallback=False,
        )
        return self.check_size(Tokenizer(engine, name="unigram"))


def deterministic_scores(pieces: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Pieces and scores that do not depend on the order of the library's hash tables.

    The trainer sums in hash order, which changes the last digits, and gives pruned characters the
    lowest score plus 0, 1, 2 … ten-thousandths, also in hash order. Rounding fixes the former, the
    lowest score for all such characters the latter.
    """
    scores = {piece: round(score, 6) for piece, score in pieces}
    lowest = min(scores.values())
    for piece, score in scores.items():
        steps = (score - lowest) * 10_000
        if len(piece) == 1 and steps < len(scores) and abs(steps - round(steps)) < 0.05:
            scores[piece] = lowest
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def prune_pieces(pieces: list[tuple[str, float]], limit: int) -> list[tuple[str, float]]:
    """Drop the last multi-character pieces: the trainer may overshoot a small vocabulary."""
    excess = max(len(pieces) - limit, 0)
    longer = [piece for piece, _ in pieces if len(piece) > 1]
    dropped = set(longer[len(longer) - excess :] if excess < len(longer) else longer)
    return [(piece, score) for piece, score in pieces if piece not in dropped]


def _collect_characters(texts: Iterator[str], alphabet: set[str]) -> Iterator[str]:
    """Pass the texts on unchanged and add their characters to `alphabet`."""
    for text in texts:
        alphabet.update(text)
        yield text
