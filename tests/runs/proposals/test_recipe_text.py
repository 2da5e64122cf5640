"""Commented TOML means what its settings are."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from regard.runs.proposals.recipe_text import RecipeSetting, recipe_toml

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
VALUES = st.one_of(
    NAMES,
    st.booleans(),
    st.integers(0, 10**6),
    st.floats(0, 1, allow_nan=False),
    st.lists(NAMES, min_size=1, max_size=3),
    st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=2),
)


@given(st.dictionaries(st.sampled_from("abcdef"), VALUES))
def test_what_is_written_is_read(values: dict[str, object]) -> None:
    settings = [RecipeSetting(key, value, f"why {key}") for key, value in values.items()]
    text = recipe_toml(["about"], {"": settings, "task": settings, "empty": []})
    read = tomllib.loads(text)
    task = read.pop("task", {})
    assert read == task == values
