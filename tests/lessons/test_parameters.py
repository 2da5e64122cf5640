"""Parameters are read from function signatures; arguments are checked against their ranges."""

from typing import Annotated, Literal

import pytest

from regard.core.errors import UserError
from regard.lessons.parameters import Range, Seed, declared_parameters, parse_parameters


def example_lesson(
    *,
    beta: Annotated[float, Range(1, 50)] = 20,
    keys: Annotated[int, Range(3, 64)] = 8,
    kind: Literal["dot", "hard"] = "dot",
    seed: Seed = 0,
) -> None: ...


DECLARED = declared_parameters(example_lesson)


def test_name_type_default_and_range_are_declared():
    beta, keys, kind, seed = DECLARED
    assert (beta.name, beta.type, beta.default, beta.low, beta.high) == ("beta", "float", 20, 1, 50)
    assert isinstance(beta.default, float)
    assert (keys.type, kind.choices) == ("int", ("dot", "hard"))
    assert (seed.low, seed.high) == (0, 999_999)


def test_text_and_numbers_are_parsed():
    arguments = {"beta": "12.5", "keys": 9.0, "kind": "hard"}
    values = parse_parameters(DECLARED, arguments, lesson="x")
    assert values == {"beta": 12.5, "keys": 9, "kind": "hard", "seed": 0}
    assert isinstance(values["keys"], int)


def test_greek_names_are_transliterated():
    assert parse_parameters(DECLARED, {"β": "3"}, lesson="x")["beta"] == 3.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beta": "51"}, "beta = 51 is not allowed: give a number from 1 to 50"),
        ({"beta": "nan"}, "beta = nan is not allowed: give a number from 1 to 50"),
        ({"beta": True}, "beta = True is not allowed"),
        ({"keys": "3.5"}, "keys = 3.5 is not allowed: give a whole number from 3 to 64"),
        ({"keys": "many"}, "keys = many is not allowed: give a whole number from 3 to 64"),
        ({"kind": "soft"}, "kind = soft is not allowed: give one of dot, hard"),
        ({"bta": "1"}, "unknown parameter bta — did you mean beta?"),
        ({"γ": "1"}, "unknown parameter γ"),
    ],
)
def test_refused_arguments_name_the_allowed_values(arguments, message):
    with pytest.raises(UserError) as error:
        parse_parameters(DECLARED, arguments, lesson="x")
    assert f"lesson: x: {message}" in str(error.value)


def test_invalid_declarations_are_refused():
    def without_range(*, beta: float = 1) -> None: ...
    def default_out_of_range(*, beta: Annotated[float, Range(2, 3)] = 1) -> None: ...
    def positional(beta: Annotated[float, Range(0, 3)] = 1) -> None: ...

    for function in (without_range, default_out_of_range, positional):
        with pytest.raises(TypeError, match="beta"):
            declared_parameters(function)
