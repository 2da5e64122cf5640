"""Settings: read from tables and written back; errors name the key."""

from typing import Annotated, Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, SerializeAsAny, ValidationError, model_validator

from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.settings import (
    CatalogField,
    Settings,
    all_settings,
    read_settings,
    settings_class,
    to_table,
)
from regard.core.untrusted import INTEGER_LIMIT

SHAPES = Catalog("shape", home="json")  # any package without registered parts


@SHAPES.add("square")
class Square(Settings):
    """Four equal sides."""

    side: float = Field(default=1.0, gt=0.0)
    "Side length."


@SHAPES.add("circle")
class Circle(Settings):
    """All points at one distance."""

    radius: float = 1.0
    "Distance from the centre."


class Ink(Settings):
    colours: tuple[str, ...] = ("black",)
    "In this order."
    layers: int = Field(default=1, ge=1, le=9)
    "Number of coats."


class Drawing(Settings):
    title: str
    "Caption below the drawing."
    shape: Annotated[SerializeAsAny[Settings], CatalogField(SHAPES)] = Square()
    "The drawn shape."
    ink: Ink = Ink()
    "The ink it is drawn with."
    frame: int | None = None
    "Width of a frame; none by default."

    @model_validator(mode="after")
    def _frame_is_visible(self) -> Self:
        if self.frame == 0:
            raise ValueError("a frame of width 0 is invisible: leave it out")
        return self


drawings = st.builds(
    Drawing,
    title=st.text(),
    shape=st.builds(Square, side=st.floats(0.1, 9)) | st.builds(Circle, radius=st.floats(0, 9)),
    ink=st.builds(Ink, colours=st.lists(st.text()).map(tuple), layers=st.integers(1, 9)),
    frame=st.none() | st.integers(1, INTEGER_LIMIT - 1),
)


@given(drawings)
def test_settings_round_trip_through_a_table(drawing: Drawing) -> None:
    assert read_settings(Drawing, to_table(drawing)) == drawing


def test_part_is_selected_by_name_or_by_table() -> None:
    by_name = read_settings(Drawing, {"title": "o", "shape": "circle"})
    by_table = read_settings(Drawing, {"title": "o", "shape": {"kind": "circle", "radius": 1.0}})
    assert by_name.shape == by_table.shape == Circle()
    unnamed = read_settings(Drawing, {"title": "o", "shape": {"side": 2.0}})
    assert unnamed.shape == Square(side=2.0)  # without a name: the default part


def test_missing_values_take_the_default_and_none_is_not_written() -> None:
    table = to_table(read_settings(Drawing, {"title": "a"}))
    assert table["shape"] == {"kind": "square", "side": 1.0}
    assert "frame" not in table


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Ink().layers = 2  # type: ignore[misc]


def test_string_below_a_field_is_its_description() -> None:
    docs = {setting.key: setting.doc for setting in all_settings(Drawing)}
    assert list(docs) == ["title", "shape", "ink", "ink.colours", "ink.layers", "frame"]
    assert docs["ink.layers"] == "Number of coats."


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"title": "a", "ink": {"layer": 1}},
            "unknown setting ink.layer — did you mean ink.layers?",
        ),
        ({"title": "a", "inc": {}}, "unknown setting inc — did you mean ink?"),
        (
            {"title": "a", "ink": {"layers": 0}},
            "ink.layers = 0 is not allowed: give a number greater",
        ),
        (
            {"title": "a", "ink": {"layers": "x"}},
            "ink.layers = 'x' is not allowed: give an integer",
        ),
        (
            {"title": "a", "shape": {"kind": "square", "side": "x"}},
            "shape.side = 'x' is not allowed",
        ),
        ({"title": "a", "shape": {"kind": "square", "side": float("nan")}}, "shape.side = nan"),
        (
            {"title": "a", "shape": "sqare"},
            "shape.kind: unknown shape 'sqare' — did you mean square?",
        ),
        ({"title": "a", "shape": {"kind": 3}}, "shape.kind: unknown shape 3"),
        ({"title": "a", "shape": 3}, "shape takes a name or a table with kind = …, not 3"),
        (
            {"title": "a", "shape": {"kind": "circle", "side": 2}},
            "shape.side belongs to kind = 'square', and this is 'circle'",
        ),
        ({"title": "a", "shape": {"kind": "circle", "x": 2}}, "unknown setting shape.x"),
        ({"title": "a", "ink": "red"}, "ink is a table: write [ink]"),
        ({"title": "a", "frame": 0}, "a frame of width 0 is invisible"),
        ({}, "title is missing. Give it: Caption below the drawing."),
    ],
)
def test_invalid_values_are_named_by_key(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_settings(Drawing, table, locate=lambda key: f"at {key}")
    assert message in str(caught.value)
    assert str(caught.value).startswith("recipe: ")


def test_locate_receives_the_dotted_key() -> None:
    keys = []

    def locate(key: str) -> str:
        keys.append(key)
        return "a.toml, line 7"

    with pytest.raises(UserError, match=r"recipe: a\.toml, line 7: ink\.layers = 0"):
        read_settings(Drawing, {"title": "a", "ink": {"layers": 0}}, locate=locate)
    assert keys == ["ink.layers"]


def test_part_that_is_not_a_settings_class_is_a_type_error() -> None:
    things = Catalog("thing", home="json")
    things.add("function")(lambda: None)
    with pytest.raises(TypeError, match="thing 'function' is not a settings class"):
        settings_class(things, "function")
