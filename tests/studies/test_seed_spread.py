"""A figure over seeds: its interval grows with the seeds' spread and stays where figures can be."""

import math

import numpy as np
import pytest

from regard.evaluation.metrics.bleu_and_rouge import TranslationMetric
from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.evaluation.metrics.question_answering import AnswerMetric
from regard.evaluation.metrics.similarity import SimilarityMetric
from regard.evaluation.statistics.seed_tables import SeedTables, ratio
from regard.studies.seed_spread import seed_spread


def measured(*right: list[int]) -> SeedTables:
    """A seed each: which of the items it has right."""
    columns = np.array([[seed, np.ones(len(seed))] for seed in right], dtype=float)
    seeds = tuple(range(len(right)))
    return SeedTables(variant="a", seeds=seeds, statistics=columns, splits=("dev:1",) * len(right))


def test_an_interval_near_the_end_does_not_leave_the_scale():
    nearly_all = measured([1] * 20, [1] * 19 + [0], [1] * 18 + [0, 0])
    free = seed_spread(nearly_all, ratio)
    held = seed_spread(nearly_all, ratio, bounds=(0.0, 1.0))
    assert free.high > 1.0
    assert (held.value, held.low, held.high) == (free.value, free.low, 1.0)


def test_one_seed_has_no_interval():
    assert seed_spread(measured([1, 0, 1]), ratio, bounds=(0.0, 1.0)).low is None


@pytest.mark.parametrize(
    ("measure", "metric", "ends"),
    [
        (AnswerMetric(), "f1", (0.0, 1.0)),
        (DocumentMetric(), "perplexity", (1.0, math.inf)),
        (TranslationMetric(), "bleu", (0.0, 100.0)),
        (SimilarityMetric(), "spearman", (-1.0, 1.0)),
    ],
)
def test_every_metric_knows_its_ends(measure, metric, ends):
    assert measure.bounds(metric) == ends
