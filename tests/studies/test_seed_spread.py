"""Scores over seeds: intervals within the bounds of the score."""

import math

import numpy as np
import pytest

from regard.evaluation.metrics.bleu_and_rouge import TranslationMetric
from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.evaluation.metrics.question_answering import AnswerMetric
from regard.evaluation.metrics.similarity import SimilarityMetric
from regard.evaluation.statistics.seed_tables import SeedTables, ratio
from regard.studies.seed_spread import seed_spread


def seed_tables(*correct: list[int]) -> SeedTables:
    """For each seed, which items it has right."""
    statistics = np.array([[seed, np.ones(len(seed))] for seed in correct], dtype=float)
    seeds = tuple(range(len(correct)))
    return SeedTables(
        variant="a", seeds=seeds, statistics=statistics, splits=("dev:1",) * len(correct)
    )


def test_interval_is_clipped_to_the_bounds():
    nearly_all = seed_tables([1] * 20, [1] * 19 + [0], [1] * 18 + [0, 0])
    unbounded = seed_spread(nearly_all, ratio)
    bounded = seed_spread(nearly_all, ratio, bounds=(0.0, 1.0))
    assert unbounded.high > 1.0
    assert (bounded.value, bounded.low, bounded.high) == (unbounded.value, unbounded.low, 1.0)


def test_one_seed_has_no_interval():
    assert seed_spread(seed_tables([1, 0, 1]), ratio, bounds=(0.0, 1.0)).low is None


@pytest.mark.parametrize(
    ("metric", "score_name", "bounds"),
    [
        (AnswerMetric(), "f1", (0.0, 1.0)),
        (DocumentMetric(), "perplexity", (1.0, math.inf)),
        (TranslationMetric(), "bleu", (0.0, 100.0)),
        (SimilarityMetric(), "spearman", (-1.0, 1.0)),
    ],
)
def test_metric_bounds(metric, score_name, bounds):
    assert metric.bounds(score_name) == bounds


def test_what_the_items_lack_leaves_no_interval():
    tables = seed_tables([1, 0, 1, 1], [1, 1, 0, 1])
    given = seed_spread(tables, ratio)
    lacking = seed_spread(tables, ratio, no_interval="no text has the label b")
    assert given.low < given.value < given.high
    assert (lacking.value, lacking.low, lacking.high) == (given.value, None, None)
    assert (given.no_interval, lacking.no_interval) == ("", "no text has the label b")
