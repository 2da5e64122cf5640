"""Parameters are read from functions, and what a person gives is held against their ranges."""

from typing import Annotated, Literal

import pytest

from regard.core.errors import UserError
from regard.lessons.parameters import Range, Seed, parameters, read_parameters


def made(
    *,
    beta: Annotated[float, Range(1, 50)] = 20,
    keys: Annotated[int, Range(3, 64)] = 8,
    kind: Literal["dot", "hard"] = "dot",
    seed: Seed = 0,
) -> None: ...


KNOWN = parameters(made)


def test_name_default_range_and_sort_are_readable():
    beta, keys, kind, seed = KNOWN
    assert (beta.name, beta.sort, beta.default, beta.low, beta.high) == ("beta", "float", 20, 1, 50)
    assert isinstance(beta.default, float)
    assert (keys.sort, kind.choices) == ("int", ("dot", "hard"))
    assert (seed.low, seed.high) == (0, 999_999)


def test_text_and_numbers_are_read():
    given = {"beta": "12.5", "keys": 9.0, "kind": "hard"}
    found = read_parameters(KNOWN, given, lesson="x")
    assert found == {"beta": 12.5, "keys": 9, "kind": "hard", "seed": 0}
    assert isinstance(found["keys"], int)


def test_greek_is_latin():
    assert read_parameters(KNOWN, {"β": "3"}, lesson="x")["beta"] == 3.0


@pytest.mark.parametrize(
    ("given", "said"),
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
def test_what_cannot_be_used_names_the_range(given, said):
    with pytest.raises(UserError) as problem:
        read_parameters(KNOWN, given, lesson="x")
    assert f"lesson: x: {said}" in str(problem.value)


def test_a_parameter_without_a_range_is_a_mistake():
    def loose(*, beta: float = 1) -> None: ...
    def wrong(*, beta: Annotated[float, Range(2, 3)] = 1) -> None: ...
    def positional(beta: Annotated[float, Range(0, 3)] = 1) -> None: ...

    for function in (loose, wrong, positional):
        with pytest.raises(TypeError, match="beta"):
            parameters(function)
