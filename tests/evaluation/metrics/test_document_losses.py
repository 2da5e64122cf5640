"""Figures of documents by sums are the figures of `Perplexity`."""

import numpy as np
import pytest

from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.evaluation.metrics.metric import build_metric
from regard.evaluation.metrics.perplexity import Perplexity


def test_the_same_figures_as_perplexity():
    generator = np.random.default_rng(0)
    tokens, size = generator.integers(1, 40, 50), generator.integers(1, 200, 50)
    nats = generator.gamma(2.0, 3.0, 50) * tokens
    told = Perplexity(part="dev", tokenizer="x")
    figures = told.score(told.statistics(nats, tokens=tokens, bytes=size))
    rows = [
        {"item": i, "nats": float(n), "tokens": int(t), "bytes": int(b)}
        for i, (n, t, b) in enumerate(zip(nats, tokens, size, strict=True))
    ]
    measure = DocumentMetric()
    sums = measure.columns(rows).sum(axis=1)
    for metric in measure.metrics:
        assert float(measure.statistic(metric)(sums)) == pytest.approx(figures[metric].value)
        assert not measure.higher_is_better(metric)
    assert build_metric(measure.settings()) == measure
