"""Pixels are measured by their squared error."""

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import (
    build_metric,
    difference_verdict,
    paired_difference,
    score,
)
from regard.evaluation.metrics.pixels import MEAN_SQUARED_ERROR, PixelMetric


def rows(away: float, n: int = 30):
    truths = np.random.default_rng(0).random((n, 4))
    return [
        {"item": i, "truth": truth.tolist(), "predicted": (truth + away).tolist()}
        for i, truth in enumerate(truths)
    ]


def test_the_mean_of_squares_and_which_is_better():
    [estimate] = score(PixelMetric(), rows(0.1), split="dev")
    assert estimate.name == MEAN_SQUARED_ERROR
    assert estimate.value == pytest.approx(0.01)
    assert estimate.n == 30
    found = paired_difference(PixelMetric(), MEAN_SQUARED_ERROR, rows(0.1), rows(0.2), split="dev")
    better = PixelMetric().higher_is_better(MEAN_SQUARED_ERROR)
    assert difference_verdict(found, higher_is_better=better) == "better than"


def test_it_comes_back_from_its_settings():
    assert build_metric(PixelMetric().settings()) == PixelMetric()


@pytest.mark.parametrize(
    ("predicted", "words"),
    [([0.1], "1 pixels told where 2 are true"), ("0.1", "not a list"), ([True, 1], "not a list")],
)
def test_what_cannot_be_measured_is_said(predicted, words):
    with pytest.raises(UserError, match=words):
        PixelMetric().statistics([{"item": 0, "truth": [0.1, 0.2], "predicted": predicted}])
