"""Every chart is one that Vega-Lite's schema accepts, and its dark drawing is the light one in
other colours: reports check neither any more, they only draw."""

from __future__ import annotations

import pytest
from tests.reports.made_study import evidence_of, outcome_with

from regard.reports.charts import run_charts
from regard.reports.charts.theme import DARK, LIGHT, in_dark
from regard.reports.run_report import TASK_CHARTS
from regard.reports.study_report import CHARTS
from regard.runs.archive.read_run import read_run

TABLES = {
    "f1_by_threshold": [{"tau": tau, "f1": 0.5 - tau**2} for tau in (-0.5, 0.0, 0.5)],
    "risk_coverage": [
        {"part": part, "coverage": share, "risk": share / 3}
        for part in ("dev", "test")
        for share in (0.5, 1.0)
    ],
    "calibration": [
        {"part": "test", "confidence": sure, "accuracy": sure - 0.1, "n": 9} for sure in (0.5, 0.9)
    ],
    "by source length": [
        {"part": "test", "metric": "perplexity", "items": "rows", "n": 40, "words": words}
        | {"value": 30.0, "low": 28.0, "high": 32.0}
        for words in ("below 8", "8 to 11")
    ],
}
OF_A_RUN = (
    run_charts.interval_chart,
    run_charts.loss_chart,
    run_charts.learning_rate_chart,
    run_charts.length_chart,
    *(draw for _, _, draw in TASK_CHARTS),
)


def holds(draw, record) -> None:
    light, dark = (draw(record, theme=theme, width=360) for theme in (LIGHT, DARK))
    assert light.to_dict(validate=True)["config"]["axis"]["labelColor"] == LIGHT.quiet
    assert in_dark(run_charts.svg(light)) == run_charts.svg(dark)


@pytest.mark.parametrize("draw", OF_A_RUN)
def test_a_chart_of_a_run(make_run, draw):
    holds(draw, read_run(make_run(tables=TABLES)))


@pytest.mark.parametrize("name", [name for name in CHARTS if name != "by-length"])
def test_a_chart_of_a_study(tmp_path, name):
    holds(CHARTS[name], evidence_of(tmp_path, outcome_with("dot", "additive", seeds=2)))


def test_only_paint_changes():
    svg = f'<g fill="{LIGHT.ink}"><text aria-label="&gt;">fill="{LIGHT.ink}"</text></g>'
    assert in_dark(svg) == svg.replace(f'<g fill="{LIGHT.ink}', f'<g fill="{DARK.ink}')
    assert in_dark(svg.replace(LIGHT.ink, "#123456")) is None


def test_each_colour_has_one_counterpart():
    assert len(set(zip(LIGHT.colours, DARK.colours, strict=True))) == len(set(LIGHT.colours))
