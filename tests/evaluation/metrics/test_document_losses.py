"""`DocumentMetric` gives the scores of `Perplexity`."""

import numpy as np
import pytest

from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.evaluation.metrics.metric import build_metric
from regard.evaluation.metrics.perplexity import Perplexity


def test_document_metric_equals_perplexity():
    generator = np.random.default_rng(0)
    tokens, size = generator.integers(1, 40, 50), generator.integers(1, 200, 50)
    nats = generator.gamma(2.0, 3.0, 50) * tokens
    perplexity = Perplexity(split="dev", tokenizer="x")
    estimates = perplexity.score(perplexity.statistics(nats, tokens=tokens, bytes=size))
    rows = [
        {"item": i, "nats": float(n), "tokens": int(t), "bytes": int(b)}
        for i, (n, t, b) in enumerate(zip(nats, tokens, size, strict=True))
    ]
    metric = DocumentMetric()
    sums = metric.statistics(rows).sum(axis=1)
    for score_name in metric.score_names:
        assert float(metric.score_function(score_name)(sums)) == pytest.approx(
            estimates[score_name].value
        )
        assert not metric.higher_is_better(score_name)
    assert build_metric(metric.settings()) == metric
