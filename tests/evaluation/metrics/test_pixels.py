"""Mean squared error of masked pixels."""

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import build_metric
from regard.evaluation.metrics.pixels import MEAN_SQUARED_ERROR, PixelMetric
from regard.evaluation.metrics.scoring import paired_difference, score
from regard.evaluation.statistics.baseline_verdict import difference_verdict


def rows(offset: float, n: int = 30):
    truths = np.random.default_rng(0).random((n, 4))
    return [
        {"item": i, "truth": truth.tolist(), "predicted": (truth + offset).tolist()}
        for i, truth in enumerate(truths)
    ]


def test_mean_squared_error_and_its_verdict():
    [estimate] = score(PixelMetric(), rows(0.1), split="dev")
    assert estimate.name == MEAN_SQUARED_ERROR
    assert estimate.value == pytest.approx(0.01)
    assert estimate.n == 30
    difference = paired_difference(
        PixelMetric(), MEAN_SQUARED_ERROR, rows(0.1), rows(0.2), split="dev"
    )
    better = PixelMetric().higher_is_better(MEAN_SQUARED_ERROR)
    assert difference_verdict(difference, higher_is_better=better) == "better than"


def test_settings_round_trip():
    assert build_metric(PixelMetric().settings()) == PixelMetric()


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        ([0.1], "1 pixels are predicted, 2 are true"),
        ("0.1", "not a list"),
        ([True, 1], "not a list"),
    ],
)
def test_invalid_rows_raise(predicted, message):
    with pytest.raises(UserError, match=message):
        PixelMetric().statistics([{"item": 0, "truth": [0.1, 0.2], "predicted": predicted}])
