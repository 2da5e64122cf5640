"""The documents a language model told, as items of a measure: the same figures as `perplexity.py`,
as functions of sums, so that trainings with several seeds can be held against each other.

    columns: nats, tokens, bytes, nats per token, one
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.evaluation.metrics.metric import Metric, Row
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values, perplexity

_STATISTICS: dict[str, ScoreFunction] = {
    "perplexity": perplexity,
    "perplexity_per_byte": lambda sums: np.exp(sums[0] / sums[2]),
    "bits_per_byte": lambda sums: sums[0] / (sums[2] * math.log(2)),
    "loss_per_document": lambda sums: sums[3] / sums[4],
}


@dataclass(frozen=True, kw_only=True)
class DocumentMetric(Metric):
    """Reads `nats`, `tokens` and `bytes`."""

    kind: ClassVar[str] = "perplexity"
    truth: ClassVar[str] = "tokens"

    items: str = "documents"

    @property
    def score_names(self) -> tuple[str, ...]:
        return tuple(_STATISTICS)

    def statistics(self, rows: Sequence[Row]) -> Values:
        nats, tokens, size = (
            np.array([row[name] for row in rows], dtype=np.float64)
            for name in ("nats", "tokens", "bytes")
        )
        return np.stack([nats, tokens, size, nats / np.maximum(tokens, 1), np.ones(len(rows))])

    def score_function(self, score_name: str) -> ScoreFunction:
        return _STATISTICS[self.check_name(score_name)]

    def needs_same_tokens(self, score_name: str) -> bool:
        """Per token, only models that told the same tokens can be compared."""
        return score_name in ("perplexity", "loss_per_document")
