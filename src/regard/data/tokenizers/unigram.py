"""Unigram: begin with many pieces, drop those the text misses least, until the size is reached.

encode(text) = argmax over segmentations of Π p(piece);  p fitted by EM        Kudo, 2018
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import tokenizers
from pydantic import Field
from tokenizers import decoders, models, trainers

from regard.data.tokenizers import (
    DEFAULT_VOCABULARY,
    TOKENIZERS,
    OnProgress,
    TokenizerKind,
    check_vocabulary_size,
    metaspace_pre_tokenizer,
    nonblank_texts,
    vocabulary_too_small,
)
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer


@TOKENIZERS.add("unigram", keeps="words")
class Unigram(TokenizerKind):
    """Unigram: starts large and prunes; the likeliest segmentation wins; one leading space is lost.

    A run of characters that training never saw becomes one <unk>.
    """

    vocabulary: int | None = Field(default=None, ge=len(SPECIALS) + 1)
    "Pieces in all, specials included; left out, 8,000 or as many as the text fills."
    longest_piece: int = Field(default=16, ge=1)
    "Characters a piece may have."

    def learn(self, texts: Iterator[str], *, on_progress: OnProgress) -> Tokenizer:
        engine = tokenizers.Tokenizer(models.Unigram())
        engine.pre_tokenizer = metaspace_pre_tokenizer()
        engine.decoder = decoders.Metaspace()
        vocabulary = self.vocabulary or DEFAULT_VOCABULARY
        trainer = trainers.UnigramTrainer(
            vocab_size=vocabulary,
            special_tokens=list(SPECIALS),
            unk_token="<unk>",
            max_piece_length=self.longest_piece,
            show_progress=False,
        )
        alphabet: set[str] = set()
        try:
            engine.train_from_iterator(
                _noting(nonblank_texts(texts, on_progress), alphabet), trainer
            )
        except Exception as problem:
            # The library raises bare Exception for this; its text is all there is to go by.
            if "not large enough" not in str(problem):
                raise
            marked = {"▁"} | alphabet - {" "}
            raise vocabulary_too_small(vocabulary, needed=len(SPECIALS) + len(marked)) from None
        pieces = deterministic_scores(
            json.loads(engine.to_str())["model"]["vocab"][len(SPECIALS) :]
        )
        specials = [(special, 0.0) for special in SPECIALS]
        engine.model = models.Unigram(
            specials + prune_pieces(pieces, vocabulary - len(SPECIALS)),
            unk_id=SPECIALS.index("<unk>"),
            byte_fallback=False,
        )
        return check_vocabulary_size(Tokenizer(engine, name="unigram"), vocabulary=self.vocabulary)


def deterministic_scores(pieces: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same pieces and scores, whatever order the library's hash tables had this time.

    The trainer adds up in hash order, which moves the last digits, and it gives characters that
    were pruned the lowest score plus 0, 1, 2 … ten-thousandths, in hash order too. Rounding mends
    the one, the lowest score for all such characters the other.
    """
    scores = {piece: round(score, 6) for piece, score in pieces}
    lowest = min(scores.values())
    for piece, score in scores.items():
        steps = (score - lowest) * 10_000
        if len(piece) == 1 and steps < len(scores) and abs(steps - round(steps)) < 0.05:
            scores[piece] = lowest
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def prune_pieces(pieces: list[tuple[str, float]], room: int) -> list[tuple[str, float]]:
    """Drop the last pieces of several characters: the trainer overshoots where room is scarce."""
    excess = max(len(pieces) - room, 0)
    longer = [piece for piece, _ in pieces if len(piece) > 1]
    dropped = set(longer[len(longer) - excess :] if excess < len(longer) else longer)
    return [(piece, score) for piece, score in pieces if piece not in dropped]


def _noting(texts: Iterator[str], alphabet: set[str]) -> Iterator[str]:
    """The texts unchanged; their characters gather in `alphabet`."""
    for text in texts:
        alphabet.update(text)
        yield text
