"""How long the texts of a table are, which decides contexts, batches and vocabularies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from regard.data.recognition.names import ENGLISH_WORDS
from regard.data.recognition.profile import is_missing, joined
from regard.data.recognition.reading import Reading
from regard.data.recognition.table import TableSample
from regard.data.recognition.words import count_words

TOKENS_PER_WORD = 1.4
"Typical fertility of a BPE tokenizer; used only to propose sizes."
MIN_ENGLISH = 0.08
"Fraction of the words that are the most frequent English ones, in English text."
SAMPLED_ROWS = 20_000


@dataclass(frozen=True)
class Lengths:
    """In tokens, estimated."""

    inputs: int
    "Of a row's inputs together: nine rows in ten have no more."
    longest_input: int
    "Of its longest input: nine rows in ten."
    target: int
    "Of the column to predict: nine rows in ten."
    row: float
    "Mean of inputs and target together."
    rows: int
    is_english: bool

    @property
    def total(self) -> int:
        """All tokens of the table, about."""
        return round(self.rows * self.row)


def measure(table: TableSample, reading: Reading) -> Lengths:
    names = [*reading.inputs, *([reading.target] if reading.target is not None else [])]
    texts = [
        [joined(value) for value in islice(table.columns[name], SAMPLED_ROWS)] for name in names
    ]
    return measure_texts(
        texts[: len(reading.inputs)],
        texts[len(reading.inputs) :],
        rows=table.rows,
    )


def measure_texts(
    inputs: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], *, rows: int
) -> Lengths:
    """Of columns of texts, row by row."""
    counts = np.array([[count_words(text) for text in column] for column in inputs])
    target = np.array([count_words(text) for text in targets[0]] if targets else [0])
    together = counts.sum(axis=0)
    return Lengths(
        inputs=_tokens(together),
        longest_input=max(map(_tokens, counts)),
        target=_tokens(target),
        row=float(together.mean() + target.mean()) * TOKENS_PER_WORD,
        rows=rows,
        is_english=_is_english(inputs[0]),
    )


def _tokens(words: np.ndarray) -> int:
    return int(np.ceil(float(np.quantile(words, 0.9)) * TOKENS_PER_WORD))


def _is_english(texts: Sequence[str]) -> bool:
    words = [word for text in texts[:1000] if not is_missing(text) for word in text.lower().split()]
    return sum(word in ENGLISH_WORDS for word in words) >= MIN_ENGLISH * max(1, len(words))


def round_up(tokens: float, *, low: int, high: int) -> int:
    """To a multiple of 16, between `low` and `high`."""
    return int(min(high, max(low, -(-tokens // 16) * 16)))
