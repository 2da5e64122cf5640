"""Ranking: how high what is relevant stands in what a search returns.

    ndcg_at_10      Σ gᵢ / log₂(i+1) over the first ten, over the same of the best order possible
    recall_at_100   relevant documents among the first hundred, over all that are relevant
    mrr             1 / place of the first relevant document, 0 where none is returned

Gains are the judgements themselves, as in trec_eval (Järvelin and Kekäläinen, 2002, have them
linear too); what is not judged, or judged 0 or less, is not relevant.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.fields import numbers
from regard.evaluation.metrics.metric import Metric, Row, ratio_score
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

SCORE_NAMES = ("ndcg_at_10", "recall_at_100", "mrr")


@dataclass(frozen=True, kw_only=True)
class RankingMetric(Metric):
    """Reads the three figures of each query, as `score_ranking` gives them."""

    kind: ClassVar[str] = "ranking"

    items: str = "queries"
    searched: str = ""
    "Which documents were looked through: figures over others are not put beside them."

    @property
    def score_names(self) -> tuple[str, ...]:
        return SCORE_NAMES

    def is_correct(self, row: Row) -> bool:
        """Whether the first document that was found is a relevant one."""
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
    """The fields of one query's row: ids returned, best first, and the gain of each judged id."""
    if not any(gain > 0 for gain in judgements.values()):
        raise UserError(
            "a query has no relevant document",
            topic="evaluation",
            hint="Nothing can be found for it: leave it out, and say how many were.",
        )
    if len(set(ranked)) < len(ranked):
        raise UserError("a search returned one document twice", topic="evaluation")
    return {
        "ndcg_at_10": ndcg(ranked, judgements, depth=10),
        "recall_at_100": recall(ranked, judgements, depth=100),
        "mrr": reciprocal_rank(ranked, judgements),
    }


def ndcg(ranked: Sequence[Hashable], judgements: Mapping[Hashable, float], *, depth: int) -> float:
    """Discounted gain of the first `depth`, over that of the best order of all judged."""
    gains = [max(0.0, judgements.get(one, 0.0)) for one in ranked[:depth]]
    ideal = sorted((gain for gain in judgements.values() if gain > 0), reverse=True)[:depth]
    return _discounted(gains) / _discounted(ideal)


def recall(
    ranked: Sequence[Hashable], judgements: Mapping[Hashable, float], *, depth: int
) -> float:
    """Share of all relevant documents that the first `depth` hold."""
    relevant = {one for one, gain in judgements.items() if gain > 0}
    return len(relevant.intersection(ranked[:depth])) / len(relevant)


def reciprocal_rank(ranked: Sequence[Hashable], judgements: Mapping[Hashable, float]) -> float:
    """1 over the place of the first relevant document."""
    places = (place for place, one in enumerate(ranked, 1) if judgements.get(one, 0.0) > 0)
    first = next(places, None)
    return 0.0 if first is None else 1 / first


def _discounted(gains: Sequence[float]) -> float:
    return float(np.sum(np.asarray(gains) / np.log2(np.arange(len(gains)) + 2)))
