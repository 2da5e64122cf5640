"""Ranking: nDCG, recall and mean reciprocal rank of search results.

    ndcg_at_10      Σ gᵢ / log₂(i+1) over the first ten, divided by that of the ideal order
    recall_at_100   relevant documents among the first hundred / all relevant documents
    mrr             1 / rank of the first relevant document, 0 where none is returned

Gains are the judgements themselves, as in trec_eval (linear in Järvelin and Kekäläinen, 2002, too);
documents without a judgement, or judged 0 or less, are not relevant.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.fields import numbers
from regard.evaluation.metrics.metric import Metric, Row, metric_kind, ratio_score
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

SCORE_NAMES = ("ndcg_at_10", "recall_at_100", "mrr")


@metric_kind(
    "ranking",
    perfect=[dict.fromkeys(SCORE_NAMES, 1.0)] * 3,
    bad=[
        dict(zip(SCORE_NAMES, scores, strict=True))
        for scores in ((0.0, 0.0, 0.0), (0.63, 1.0, 0.5), (0.2, 0.4, 0.1))
    ],
)
@dataclass(frozen=True, kw_only=True)
class RankingMetric(Metric):
    """nDCG, recall and mean reciprocal rank of search results.

    Uses the three scores of each query, as `score_ranking` computes them."""

    score_names: ClassVar = SCORE_NAMES

    items: str = "queries"
    searched: str = ""
    "Which collection was searched: scores on different collections are not comparable."

    def is_correct(self, row: Row) -> bool:
        """Whether the first result is relevant."""
        return bool(row["mrr"] == 1.0)

    def statistics(self, rows: Sequence[Row]) -> Values:
        return np.stack(
            [*(numbers(rows, score_name) for score_name in SCORE_NAMES), np.ones(len(rows))]
        )

    def score_function(self, score_name: str) -> ScoreFunction:
        return ratio_score(SCORE_NAMES.index(self.check_name(score_name)), len(SCORE_NAMES))

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        facts: dict[str, object] = {"searched": self.searched} if self.searched else {}
        return facts | ({"gain": "linear"} if score_name == "ndcg_at_10" else {})


def score_ranking(
    ranked: Sequence[Hashable], judgements: Mapping[Hashable, float]
) -> dict[str, float]:
    """Scores of one query, from the ids returned, best first, and the gain of each judged id."""
    if not any(gain > 0 for gain in judgements.values()):
        raise UserError(
            "a query has no relevant document",
            topic="evaluation",
            hint="It cannot be scored: leave such queries out, and report how many.",
        )
    if len(set(ranked)) < len(ranked):
        raise UserError("a search returned one document twice", topic="evaluation")
    return {
        "ndcg_at_10": ndcg(ranked, judgements, depth=10),
        "recall_at_100": recall(ranked, judgements, depth=100),
        "mrr": reciprocal_rank(ranked, judgements),
    }


def ndcg(ranked: Sequence[Hashable], judgements: Mapping[Hashable, float], *, depth: int) -> float:
    """Discounted gain of the first `depth`, divided by that of the ideal order."""
    gains = [max(0.0, judgements.get(document, 0.0)) for document in ranked[:depth]]
    ideal = sorted((gain for gain in judgements.values() if gain > 0), reverse=True)[:depth]
    return _discounted(gains) / _discounted(ideal)


def recall(
    ranked: Sequence[Hashable], judgements: Mapping[Hashable, float], *, depth: int
) -> float:
    """Fraction of all relevant documents that are among the first `depth`."""
    relevant = {document for document, gain in judgements.items() if gain > 0}
    return len(relevant.intersection(ranked[:depth])) / len(relevant)


def reciprocal_rank(ranked: Sequence[Hashable], judgements: Mapping[Hashable, float]) -> float:
    """1 / rank of the first relevant document, counted from 1."""
    ranks = (rank for rank, document in enumerate(ranked, 1) if judgements.get(document, 0.0) > 0)
    first = next(ranks, None)
    return 0.0 if first is None else 1 / first


def _discounted(gains: Sequence[float]) -> float:
    return float(np.sum(np.asarray(gains) / np.log2(np.arange(len(gains)) + 2)))
