"""A user error is one sentence, whichever of its fields are given."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError, did_you_mean

words = st.text("abc xyz", min_size=1).map(str.strip).filter(bool)


@given(what=words, topic=words, where=words, hint=words)
def test_order_of_the_fields(what: str, topic: str, where: str, hint: str) -> None:
    assert str(UserError(what, topic=topic, where=where, hint=hint)) == (
        f"{topic}: {where}: {what}. {hint}"
    )


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (UserError("it is wet"), "it is wet"),
        (UserError("it is wet", topic="data"), "data: it is wet"),
        (UserError("it is wet", hint="Dry it."), "it is wet. Dry it."),
        (UserError("is it wet?", hint="Dry it."), "is it wet? Dry it."),
    ],
)
def test_missing_fields_are_left_out(error: UserError, sentence: str) -> None:
    assert str(error) == sentence
    assert error.args == (sentence,)


def test_errors_can_be_pickled() -> None:
    error = UserError("it is wet", topic="data", hint="Dry it.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_close_name_is_suggested() -> None:
    assert did_you_mean("atention", ["attention", "positions"]) == " — did you mean attention?"


def test_distant_name_lists_the_known_names() -> None:
    assert did_you_mean("zzz", ["dot", "additive"]) == "; known: additive, dot"
    assert did_you_mean("zzz", []) == ""


@given(st.lists(st.text("abcdef", min_size=4), min_size=1, unique=True))
def test_known_name_is_its_own_closest_match(names: list[str]) -> None:
    assert did_you_mean(names[0], names) == f" — did you mean {names[0]}?"
