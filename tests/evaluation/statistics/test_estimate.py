import json

import pytest
from tests.wording import says

from regard.evaluation.formatting import decimals_shown
from regard.evaluation.statistics.estimate import Estimate, signature


def estimate(**changes):
    values = {
        "name": "perplexity",
        "value": 118.42,
        "low": 113.9,
        "high": 123.2,
        "n": 2104,
        "items": "documents",
        "signature": "perplexity|per:token",
    }
    return Estimate(**values | changes)


def test_str_has_value_interval_and_n():
    assert says(str(estimate()), "118.4 [113.9, 123.2]", "n = 2,104 documents")


def test_str_without_interval_has_the_reason():
    without_interval = estimate(low=None, high=None, n=1, no_interval="one item")
    assert says(str(without_interval), "118.4,", "n = 1 document ", "no interval: one item")
    assert "[" not in str(without_interval)
    assert without_interval.as_dict()["no_interval"] == "one item"


@pytest.mark.parametrize(
    "changes",
    [
        {"low": None},
        {"low": None, "high": None},
        {"no_interval": "because"},
        {"n": 0},
    ],
)
def test_missing_interval_needs_a_reason(changes):
    with pytest.raises(ValueError, match="perplexity"):
        estimate(**changes)


@pytest.mark.parametrize(
    ("value", "decimals"),
    [(118.4, 1), (4.7321, 3), (0.8214, 3), (12345.6, 0), (0.0, 3), (-9.58, 3), (float("inf"), 1)],
)
def test_four_significant_digits_are_shown_three_of_a_fraction(value, decimals):
    assert decimals_shown(value) == decimals


def test_as_dict_round_trips_through_json():
    assert json.loads(json.dumps(estimate().as_dict())) == estimate().as_dict()


def test_signature_keeps_order_and_ends_with_version():
    text = signature("perplexity", per="token", split="dev:77abf00d")
    assert text.startswith("perplexity|per:token|split:dev:77abf00d|regard:")


def test_signature_escapes_separators():
    assert signature("a", split="dev|per:byte").count("|") == 2
