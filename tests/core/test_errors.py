"""A user error is one sentence, whichever of its parts are given."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError, did_you_mean

words = st.text("abc xyz", min_size=1).map(str.strip).filter(bool)


@given(what=words, topic=words, where=words, hint=words)
def test_the_parts_stand_in_order(what: str, topic: str, where: str, hint: str) -> None:
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
def test_what_is_not_given_leaves_no_trace(error: UserError, sentence: str) -> None:
    assert str(error) == sentence
    assert error.args == (sentence,)


def test_the_sentence_survives_another_process() -> None:
    error = UserError("it is wet", topic="data", hint="Dry it.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_close_name_is_guessed() -> None:
    assert did_you_mean("atention", ["attention", "positions"]) == " — did you mean attention?"


def test_a_far_name_lists_what_is_known() -> None:
    assert did_you_mean("zzz", ["dot", "additive"]) == "; known: additive, dot"
    assert did_you_mean("zzz", []) == ""


@given(st.lists(st.text("abcdef", min_size=4), min_size=1, unique=True))
def test_a_known_name_is_its_own_closest(names: list[str]) -> None:
    assert did_you_mean(names[0], names) == f" — did you mean {names[0]}?"
