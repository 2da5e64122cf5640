"""Leaks that the weights conceal are found, named by what opens them, and nothing is changed."""

import pytest
from tests.audits.planted_hidden_leaks import HIDDEN

from regard.audits.audit import audit

BY_ZEROS = {
    "schedule buffer at 0",
    "buffer of zeros for each channel",
    "buffer below a threshold",
    "counter past a warm-up",
    "counter of a short schedule",
    "switch that is off",
    "frozen zero gate",
    "plain tensor of zero",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_leak_is_found_and_named(name: str) -> None:
    build, opens = HIDDEN[name]
    report = audit(build())
    assert report.verdict == "leak"
    assert opens in report.leaks[0].opens_with
    assert "hidden at these weights: opens when" in report.sentence()
    expected = "no longer zero" if name in BY_ZEROS else "training"
    assert {leak.opens_by for leak in report.leaks} == {expected}
