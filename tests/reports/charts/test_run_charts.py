"""Charts of a run show the recorded values, and hostile names stay text."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.statistics import LengthHistogram
from regard.reports.charts import run_charts
from regard.reports.charts.theme import DARK, LIGHT, log_ticks
from regard.runs.archive.read_run import read_run
from regard.training.events import StepEvent

CHARTS = (
    run_charts.interval_chart,
    run_charts.loss_chart,
    run_charts.learning_rate_chart,
    run_charts.length_chart,
)


def rows_of(chart) -> list[dict]:
    (rows,) = chart.to_dict()["datasets"].values()
    return rows


windows = st.lists(st.tuples(st.integers(1, 9), st.floats(0, 12)), min_size=1, max_size=200)


def steps_of(windows: list[tuple[int, float]]) -> list[StepEvent]:
    ends = [sum(length for length, _ in windows[: i + 1]) for i in range(len(windows))]
    return [StepEvent(step=end, loss=loss) for end, (_, loss) in zip(ends, windows, strict=True)]


@given(windows, st.integers(1, 50))
def test_window_means_preserve_the_overall_mean(windows, max_points):
    means = run_charts.window_means(steps_of(windows), max_points)
    assert len(means) <= max_points
    total = sum(length for length, _ in windows)
    assert means[-1].step == total
    before, area = 0, 0.0
    for mean in means:
        area += mean.loss * (mean.step - before)
        before = mean.step
    expected = math.fsum(length * loss for length, loss in windows)
    assert area == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.lists(st.integers(), max_size=300), st.integers(1, 50))
def test_subsample_keeps_order_and_the_last_event(events, max_points):
    kept = run_charts.subsample(list(enumerate(events)), max_points)
    assert len(kept) <= max_points
    assert kept == sorted(kept)
    assert (kept[-1:] or [None])[-1] == (list(enumerate(events))[-1:] or [None])[-1]


def test_short_curves_are_unchanged():
    steps = steps_of([(10, 3.0), (10, 2.0)])
    assert run_charts.window_means(steps) == steps
    assert run_charts.window_means([]) == run_charts.subsample([]) == []


def test_histogram_outline_has_fractions():
    points = run_charts.histogram_outline(LengthHistogram(edges=(0, 10, 20), counts=(3, 1)))
    assert points == [(0, 0.0), (0, 0.75), (10, 0.25), (20, 0.0)]


def test_log_ticks():
    assert log_ticks(90, 600) == [100, 200, 500]
    assert log_ticks(1, 1e6) == [10.0**power for power in range(7)]


def test_baseline_loss_is_the_log_of_its_perplexity(make_run):
    chart = run_charts.loss_chart(read_run(make_run(kneser_ney=100.0)), theme=LIGHT, width=800)
    levels = {row["loss"] for row in rows_of(chart) if row["series"] == "Kneser-Ney 3-gram"}
    assert levels == {math.log(100.0)}


def test_axis_is_logarithmic_if_scores_differ_by_factors(make_run):
    def scale(**perplexities):
        chart = run_charts.interval_chart(
            read_run(make_run(**perplexities)), theme=LIGHT, width=800
        )
        return chart.to_dict()["layer"][0]["encoding"]["x"]["scale"].get("type", "linear")

    assert scale(model=100, kneser_ney=90, unigram=400) == "log"
    assert scale(model=100, kneser_ney=90, unigram=120) == "linear"


def test_all_splits_but_train_are_drawn_in_order(make_run):
    run = make_run()
    text = (run / "results.json").read_text()
    (run / "results.json").write_text(text.replace('"split": "dev"', '"split": "far away"'))
    chart = run_charts.interval_chart(read_run(run), theme=LIGHT, width=360)
    assert {row["split_label"] for row in rows_of(chart)} == {"test set", "far away set"}
    offset = chart.to_dict()["layer"][0]["encoding"]["yOffset"]
    assert offset["sort"] == ["test set", "far away set"]
    assert run_charts.dev_baselines(read_run(run)) == []


def test_names_from_data_stay_text(make_run):
    name = "</svg><script>alert(1)</script> \"&' {{x}} مرحبا 😀"
    run = make_run(comparisons=[])
    table = json.loads((run / "results.json").read_text())
    for score in table["estimates"]:
        score["of"] = score["of"].replace("Kneser-Ney 3-gram", name)
    (run / "results.json").write_text(json.dumps(table))
    for draw in (run_charts.interval_chart, run_charts.loss_chart):
        svg = run_charts.to_svg(draw(read_run(run), theme=DARK, width=860))
        elements = list(ElementTree.fromstring(svg).iter())
        assert not [e for e in elements if e.tag.endswith("script")]
        assert any((e.text or "").startswith("</svg><script>") for e in elements)


@pytest.mark.parametrize("draw", CHARTS)
def test_empty_run_has_no_charts(make_run, draw):
    assert draw(read_run(make_run(finished=False, events=[])), theme=LIGHT, width=800) is None


def test_non_finite_scores_are_not_drawn(make_run):
    events = [
        json.dumps({"event": "step", "step": s, "loss": x}) for s, x in ((1, 3.0), (2, math.nan))
    ]
    run = read_run(make_run(model=math.inf, events=events))
    drawn = rows_of(run_charts.interval_chart(run, theme=LIGHT, width=800))
    assert {row["of"] for row in drawn} == {"Kneser-Ney 3-gram", "unigram"}
    losses = rows_of(run_charts.loss_chart(run, theme=LIGHT, width=800))
    assert [row["loss"] for row in losses if row["series"] == "training loss"] == [3.0]


def test_png_has_the_requested_width(make_run):
    chart = run_charts.interval_chart(read_run(make_run()), theme=LIGHT, width=400)
    image = run_charts.to_png(chart, scale=1.0)
    assert image.startswith(b"\x89PNG")
    assert int.from_bytes(image[16:20]) == 400
