"""Every chart is valid Vega-Lite, and its dark version equals the recoloured light one; reports
themselves check neither."""

from __future__ import annotations

import pytest
from tests.reports.synthetic_study import evidence_of, outcome_with

from regard.reports.charts import run_charts
from regard.reports.charts.theme import DARK, LIGHT, recolour_for_dark
from regard.reports.run_report import RUN_CHARTS, TASK_CHARTS
from regard.reports.study_report import CHARTS
from regard.runs.archive.read_run import read_run

TABLES = {
    "f1_by_threshold": [{"tau": tau, "f1": 0.5 - tau**2} for tau in (-0.5, 0.0, 0.5)],
    "risk_coverage": [
        {"split": split, "coverage": coverage, "risk": coverage / 3}
        for split in ("dev", "test")
        for coverage in (0.5, 1.0)
    ],
    "calibration": [
        {"split": "test", "confidence": confidence, "accuracy": confidence - 0.1, "n": 9}
        for confidence in (0.5, 0.9)
    ],
    "by source length": [
        {"split": "test", "metric": "perplexity", "items": "rows", "n": 40, "words": words}
        | {"value": 30.0, "low": 28.0, "high": 32.0}
        for words in ("below 8", "8 to 11")
    ],
}
RUN_CHARTS = (
    run_charts.interval_chart,
    run_charts.loss_chart,
    run_charts.learning_rate_chart,
    run_charts.length_chart,
    *(RUN_CHARTS[name] for name in TASK_CHARTS),
)


def check_chart(draw, record) -> None:
    light, dark = (draw(record, theme=theme, width=360) for theme in (LIGHT, DARK))
    assert light.to_dict(validate=True)["config"]["axis"]["labelColor"] == LIGHT.quiet
    assert recolour_for_dark(run_charts.to_svg(light)) == run_charts.to_svg(dark)


@pytest.mark.parametrize("draw", RUN_CHARTS)
def test_run_chart_is_valid_in_both_themes(make_run, draw):
    check_chart(draw, read_run(make_run(tables=TABLES)))


@pytest.mark.parametrize("name", [name for name in CHARTS if name != "by-length"])
def test_study_chart_is_valid_in_both_themes(tmp_path, name):
    check_chart(CHARTS[name], evidence_of(tmp_path, outcome_with("dot", "additive", seeds=2)))


def test_recolouring_changes_only_paint():
    svg = f'<g fill="{LIGHT.ink}"><text aria-label="&gt;">fill="{LIGHT.ink}"</text></g>'
    assert recolour_for_dark(svg) == svg.replace(f'<g fill="{LIGHT.ink}', f'<g fill="{DARK.ink}')
    assert recolour_for_dark(svg.replace(LIGHT.ink, "#123456")) is None


def test_theme_colours_map_one_to_one():
    assert len(set(zip(LIGHT.colours, DARK.colours, strict=True))) == len(set(LIGHT.colours))
