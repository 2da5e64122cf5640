"""Variants of a sweep and their names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.studies.study import FOLDER
from regard.studies.sweep import RandomSweep, combinations, format_changes, sweep_variants

KEYS = st.sampled_from(["train.lr", "model.width", "model.attention.kind"])
STRINGS = st.text("ab.=,+ /-é", max_size=6)
VALUES = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=3))
def test_grid_is_the_cartesian_product_with_unique_names(values):
    variants = sweep_variants(values, None)
    expected = 1
    for each in values.values():
        expected *= len(each)
    assert len(variants) == expected == len(combinations(values))
    assert {key: {changes[key] for changes in variants.values()} for key in values} == {
        key: set(each) for key, each in values.items()
    }


@given(st.integers(1, 20), st.integers(0, 5))
def test_random_sweep_is_a_seeded_subset_of_the_grid(trials, seed):
    values = {"train.lr": (0.1, 0.2, 0.3), "model.width": (8, 16)}
    drawn = sweep_variants({}, RandomSweep(trials=trials, seed=seed, values=values))
    assert len(drawn) == min(trials, 6)
    assert drawn.keys() <= sweep_variants(values, None).keys()
    assert drawn == sweep_variants({}, RandomSweep(trials=trials, seed=seed, values=values))


def test_empty_sweep_has_no_variants():
    assert sweep_variants({}, None) == {}
    assert sweep_variants({"train.lr": ()}, None) == {}


@given(st.dictionaries(KEYS, st.one_of(STRINGS, st.floats(), st.booleans()), min_size=1))
def test_names_are_valid_folder_names(changes):
    assert re.fullmatch(FOLDER, format_changes(changes))


def test_name_of_a_table_starts_with_its_kind():
    changes = {"model.attention": {"kind": "soft-masked", "penalty": 3.0}, "train.lr": 1e-4}
    assert format_changes(changes) == "attention=soft-masked+penalty=3.0,lr=0.0001"


def test_name_clash_is_refused():
    with pytest.raises(UserError, match=r"two combinations .* name note=a-b"):
        sweep_variants({"x.note": ["a b", "a/b"]}, None)
