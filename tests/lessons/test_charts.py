"""Lesson charts: labelled axes, all drawable values, the requested width."""

import pytest

from regard.lessons.lesson_charts import bar_chart, heatmap, line_chart
from regard.reports.charts.run_charts import to_svg
from regard.reports.charts.theme import DARK, LIGHT

ROWS = [
    {"β": 1, "error": 0.5, "keys": "3 keys"},
    {"β": 2, "error": 0.05, "keys": "3 keys"},
    {"β": 2, "error": 0.0, "keys": "8 keys"},
]


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("width", [860, 360])
def test_axes_are_labelled(theme, width):
    for draw in (
        line_chart(ROWS, x="β", y="error", series="keys", log="y", reference=0.1),
        bar_chart(ROWS, name="keys", value="error"),
        heatmap([[0.0, 1.0]], row_labels=["one"], column_labels=["a", "b"], title="weight"),
    ):
        spec = draw(theme=theme, width=width).to_dict()
        titles = {
            channel.get("title")
            for layer in spec["layer"]
            for channel in layer.get("encoding", {}).values()
            if isinstance(channel, dict)
        }
        assert {"error", "weight"} & titles
        assert spec["width"] == width


def test_zero_is_omitted_on_a_log_axis():
    chart = line_chart(ROWS, x="β", y="error", series="keys", log="y")(theme=LIGHT, width=860)
    (rows,) = chart.to_dict()["datasets"].values()
    assert [row["y"] for row in rows] == [0.5, 0.05]


def y_scale(chart) -> dict:
    return chart(theme=LIGHT, width=860).to_dict()["layer"][0]["encoding"]["y"]["scale"]


def test_y_axis_starts_at_zero_if_values_come_near_it():
    near, far = ([{"x": 1, "y": low}, {"x": 2, "y": 10.0}] for low in (2.0, 8.0))
    assert y_scale(line_chart(near, x="x", y="y")) == {"zero": True}
    assert y_scale(line_chart(far, x="x", y="y")) == {"zero": False}
    assert y_scale(line_chart(near, x="x", y="y", log="y"))["type"] == "log"


def test_step_interpolation():
    draw = line_chart(ROWS, x="β", y="error", interpolate="step")
    spec = draw(theme=LIGHT, width=860).to_dict()
    assert spec["layer"][0]["mark"]["interpolate"] == "step"


def test_few_integers_have_a_tick_each():
    spec = line_chart(ROWS, x="β", y="error")(theme=LIGHT, width=860).to_dict()
    assert spec["layer"][0]["encoding"]["x"]["axis"]["values"] == [1, 2]


def test_labels_are_data_not_expressions():
    label = '"]; <b> \\ datum'
    draw = heatmap([[1.0]], row_labels=[label], column_labels=[label], title="weight")
    chart = draw(theme=LIGHT, width=860)
    assert "<b>" not in to_svg(chart)
    assert "&lt;b&gt;" in to_svg(chart)
