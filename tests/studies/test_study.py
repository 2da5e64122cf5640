"""Study files: their variants, and errors in them."""

import pytest
import tomli_w

from regard.core.errors import UserError
from regard.studies.study import LoadedStudy

RECIPE = {
    "name": "base",
    "data": {"corpus": "python-docs"},
    "model": {"layers": 1, "heads": 2, "width": 8, "positions": {"kind": "learned"}},
    "train": {"max_steps": 2},
}


@pytest.fixture
def write(tmp_path):
    (tmp_path / "base.toml").write_text(tomli_w.dumps(RECIPE))

    def write(**table):
        file = tmp_path / "study.toml"
        file.write_text(tomli_w.dumps({"base": "base.toml", **table}))
        return file

    return write


def test_variants_are_dotted_changes_of_the_base(write):
    loaded = LoadedStudy.load(
        write(variants={"dot": {}, "additive": {"model.attention.kind": "additive"}})
    )
    assert [variant.name for variant in loaded.variants] == ["dot", "additive"]
    assert loaded.reference.name == "dot"
    dot, additive = (variant.recipe for variant in loaded.variants)
    assert dot.differences(additive) == [
        "model.attention.hidden: None here, 0 there",
        "model.attention.kind: 'dot' here, 'additive' there",
        "name: 'dot' here, 'additive' there",
    ]


def test_changing_the_kind_drops_the_settings_of_the_old_kind(write):
    study = write(variants={"one": {"model.positions.kind": "rotary"}})
    [variant] = LoadedStudy.load(study).variants
    assert variant.recipe.to_table()["model"]["positions"] == {"kind": "rotary", "base": 10000.0}


def test_grid_gives_all_combinations_random_some(write):
    values = {"train.lr": [0.1, 0.2], "model.width": [8, 16, 32]}
    assert len(LoadedStudy.load(write(grid=values)).variants) == 6
    drawn = LoadedStudy.load(write(random={"trials": 3, "values": values})).variants
    assert len(drawn) == 3
    again = LoadedStudy.load(write(random={"trials": 3, "values": values})).variants
    assert [one.name for one in drawn] == [one.name for one in again]
    assert drawn[0].name.startswith("lr=0.")


def test_broken_kinds_are_allowed_in_studies(write):
    study = write(variants={"cheat": {"model.attention.kind": "zero-masked"}})
    assert LoadedStudy.load(study).variants[0].recipe.model.attention.on_purpose


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "there is nothing to compare"),
        ({"variants": {"a": {"model.atention": "dot"}}}, "variants.a: unknown setting model.aten"),
        ({"variants": {"a": {"train.seed": 3}}}, "train.seed is set by the study"),
        ({"variants": {"a": {}}, "base": "gone.toml"}, "base = 'gone.toml': no such recipe"),
        ({"variants": {"a": {"recipe": "gone.toml"}}}, "variants.a.recipe = 'gone.toml'"),
        ({"variants": {"a": {}}, "seeds": [1, 1]}, "give one or more different seeds"),
        ({"variants": {"a": {}}, "seeds": []}, "give one or more different seeds"),
        ({"variants": {"a": {}}, "decides": "train.loss"}, "is no score of a held-out split"),
        ({"variants": {"a": {}}, "reference": "b"}, "is no variant; there are a"),
        ({"variants": {"a": {}}, "tune": {"train.lr": [1.0]}}, "needs at least two values"),
        ({"variants": {"a": {}, "b": {"data.corpus": "x.txt"}}}, "reads other data than a"),
        ({"variants": {"a": {}}, "sedes": [0]}, "did you mean seeds"),
        ({"variants": {"a": {}}, "tune": {"train.lrr": [1.0, 2.0]}}, "variants.a, with tune: unkn"),
        ({"variants": {"a": {}}, "tune": {"train.lr": [1.0, -2.0]}}, "with tune: train.lr = -2.0"),
        ({"variants": {"a/b": {}}}, "'a/b' must be a folder name"),
        ({"variants": {"charts": {}}}, "'charts' has the name of the study's own charts"),
        ({"variants": {"dot": {}, "Dot": {}}}, "dot and Dot differ only in case"),
        ({"variants": {"a": {}}, "base": ""}, "base = '': no such recipe"),
        (
            {"variants": {"a": {"init_from": "gone"}}},
            "variants.a.init_from = 'gone': no such recipe",
        ),
    ],
)
def test_invalid_study_is_refused(write, table, message):
    with pytest.raises(UserError, match=message):
        LoadedStudy.load(write(**table))


def test_duplicate_variant_is_refused_with_its_line(tmp_path, write):
    file = write(variants={"a": {}})
    file.write_text(file.read_text() + "\n[variants.a]\n")
    message = r"study.toml, line \d+.* have the same name, \[variants.a\]"
    with pytest.raises(UserError, match=message):
        LoadedStudy.load(file)


def test_first_explicit_variant_is_the_reference_of_a_sweep(write):
    loaded = LoadedStudy.load(write(variants={"plain": {}}, grid={"model.width": [16, 32]}))
    assert [one.name for one in loaded.variants] == ["plain", "width=16", "width=32"]
    assert {one.against for one in loaded.variants} == {"plain"}


def test_init_from_of_a_variant_is_relative_to_the_study_file(tmp_path, write):
    without_model = {key: value for key, value in RECIPE.items() if key != "model"}
    (tmp_path / "base.toml").write_text(tomli_w.dumps(without_model))
    (tmp_path / "first.toml").write_text(tomli_w.dumps({**RECIPE, "name": "first"}))
    [variant] = LoadedStudy.load(write(variants={"a": {"init_from": "first.toml"}})).variants
    assert variant.recipe.init_from == str(tmp_path / "first.toml")
    assert variant.changes == {"init_from": "first.toml"}
    assert "model" not in variant.recipe.model_fields_set, "it comes from the initial model"
