"""The variants a sweep makes, and the names they go by."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.studies.study import FOLDER
from regard.studies.sweep import RandomSweep, combinations, format_changes, sweep_variants

KEYS = st.sampled_from(["train.lr", "model.width", "model.attention.kind"])
WORDS = st.text("ab.=,+ /-é", max_size=6)
VALUES = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=3))
def test_every_combination_once_each_with_a_name_of_its_own(values):
    made = sweep_variants(values, None)
    expected = 1
    for each in values.values():
        expected *= len(each)
    assert len(made) == expected == len(combinations(values))
    assert {key: {changes[key] for changes in made.values()} for key in values} == {
        key: set(each) for key, each in values.items()
    }


@given(st.integers(1, 20), st.integers(0, 5))
def test_drawn_combinations_are_some_of_all_and_follow_from_the_seed(trials, seed):
    values = {"train.lr": (0.1, 0.2, 0.3), "model.width": (8, 16)}
    drawn = sweep_variants({}, RandomSweep(trials=trials, seed=seed, values=values))
    assert len(drawn) == min(trials, 6)
    assert drawn.keys() <= sweep_variants(values, None).keys()
    assert drawn == sweep_variants({}, RandomSweep(trials=trials, seed=seed, values=values))


def test_nothing_to_sweep_makes_nothing():
    assert sweep_variants({}, None) == {}
    assert sweep_variants({"train.lr": ()}, None) == {}


@given(st.dictionaries(KEYS, st.one_of(WORDS, st.floats(), st.booleans()), min_size=1))
def test_a_name_is_fit_for_a_folder(changes):
    assert re.fullmatch(FOLDER, format_changes(changes))


def test_a_table_goes_by_its_kind():
    changes = {"model.attention": {"kind": "soft-masked", "penalty": 3.0}, "train.lr": 1e-4}
    assert format_changes(changes) == "attention=soft-masked+penalty=3.0,lr=0.0001"


def test_two_combinations_of_one_name_are_refused():
    with pytest.raises(
        UserError, match="two combinations of the sweep have the same name note=a-b"
    ):
        sweep_variants({"x.note": ["a b", "a/b"]}, None)
