"""Charts of lessons: labelled axes, every value drawn that can be, at the size asked for."""

import pytest

from regard.lessons.lesson_charts import bars, curves, heat
from regard.reports.charts.run_charts import svg
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
        curves(ROWS, x="β", y="error", series="keys", log="y", level=0.1),
        bars(ROWS, name="keys", value="error"),
        heat([[0.0, 1.0]], down=["one"], across=["a", "b"], title="weight"),
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


def test_a_logarithm_of_nought_is_left_out():
    drawn = curves(ROWS, x="β", y="error", series="keys", log="y")(theme=LIGHT, width=860)
    (rows,) = drawn.to_dict()["datasets"].values()
    assert [row["y"] for row in rows] == [0.5, 0.05]


def up(drawn) -> dict:
    return drawn(theme=LIGHT, width=860).to_dict()["layer"][0]["encoding"]["y"]["scale"]


def test_what_comes_near_nought_is_drawn_from_nought():
    near, far = ([{"x": 1, "y": low}, {"x": 2, "y": 10.0}] for low in (2.0, 8.0))
    assert up(curves(near, x="x", y="y")) == {"zero": True}
    assert up(curves(far, x="x", y="y")) == {"zero": False}
    assert up(curves(near, x="x", y="y", log="y"))["type"] == "log"


def test_a_staircase_has_steps():
    drawn = curves(ROWS, x="β", y="error", between="step")(theme=LIGHT, width=860).to_dict()
    assert drawn["layer"][0]["mark"]["interpolate"] == "step"


def test_few_whole_numbers_have_a_tick_each():
    drawn = curves(ROWS, x="β", y="error")(theme=LIGHT, width=860).to_dict()
    assert drawn["layer"][0]["encoding"]["x"]["axis"]["values"] == [1, 2]


def test_names_are_data_not_expressions():
    nasty = '"]; <b> \\ datum'
    drawn = heat([[1.0]], down=[nasty], across=[nasty], title="weight")(theme=LIGHT, width=860)
    assert "<b>" not in svg(drawn)
    assert "&lt;b&gt;" in svg(drawn)
