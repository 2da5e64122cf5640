"""Perplexity as a `Metric` over documents: the scores of `perplexity.py` as functions of sums, so
that `method_difference` can compare models over several seeds.

    statistics: nats, tokens, bytes, nats per token, one
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.evaluation.metrics.metric import UNBOUNDED, Metric, Row, metric_kind
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values, perplexity

_SCORE_FUNCTIONS: dict[str, ScoreFunction] = {
    "perplexity": perplexity,
    "perplexity_per_byte": lambda sums: np.exp(sums[0] / sums[2]),
    "bits_per_byte": lambda sums: sums[0] / (sums[2] * math.log(2)),
    "loss_per_document": lambda sums: sums[3] / sums[4],
}


@metric_kind(
    "perplexity",
    perfect=[{"nats": 0.0, "tokens": tokens, "bytes": 4 * tokens} for tokens in (9, 40, 3)],
    bad=[
        {"nats": nats, "tokens": tokens, "bytes": 4 * tokens}
        for nats, tokens in ((31.5, 9), (90.0, 40), (14.0, 3))
    ],
)
@dataclass(frozen=True, kw_only=True)
class DocumentMetric(Metric):
    """Perplexity of documents.

    Uses the fields `nats`, `tokens` and `bytes`."""

    score_names: ClassVar = tuple(_SCORE_FUNCTIONS)
    lower_is_better: ClassVar = score_names
    score_bounds: ClassVar = {
        "perplexity": (1.0, UNBOUNDED),
        "perplexity_per_byte": (1.0, UNBOUNDED),
        "bits_per_byte": (0.0, UNBOUNDED),
        "loss_per_document": (0.0, UNBOUNDED),
    }
    truth: ClassVar[str] = "tokens"

    items: str = "documents"

    def statistics(self, rows: Sequence[Row]) -> Values:
        nats, tokens, size = (
            np.array([row[name] for row in rows], dtype=np.float64)
            for name in ("nats", "tokens", "bytes")
        )
        return np.stack([nats, tokens, size, nats / np.maximum(tokens, 1), np.ones(len(rows))])

    def score_function(self, score_name: str) -> ScoreFunction:
        return _SCORE_FUNCTIONS[self.check_name(score_name)]

    def needs_same_tokens(self, score_name: str) -> bool:
        """Scores per token compare only models that predict the same tokens."""
        return score_name in ("perplexity", "loss_per_document")
