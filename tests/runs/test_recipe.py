"""Recipes: TOML to settings and back, overrides, errors with line numbers."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.settings import SYNONYMS, Settings
from regard.data.corpus import Data
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.word import Word
from regard.models.families.decoder import Decoder
from regard.runs.recipe import Recipe, Samples
from regard.studies.study import LoadedStudy
from regard.training.settings import Train

SHIPPED = Path(__file__).parents[2] / "recipes"
SMALL = """\
name = "small"    # a comment

[data]
corpus = "some.txt"

[tokenizer]
kind = "word"

[model]
family = "decoder"
heads = 2
width = 16
attention = { kind = "dot" }

[train]
lr = 1e-3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_each_table_configures_its_part(file: Path) -> None:
    recipe = Recipe.load(file)
    assert recipe.name == "small"
    assert isinstance(recipe.tokenizer, Word)
    assert recipe.model.width == 16  # type: ignore[attr-defined]
    assert recipe.train.lr == 1e-3


def test_the_resolved_recipe_equals_the_recipe(file: Path, tmp_path: Path) -> None:
    recipe = Recipe.load(file)
    copy = tmp_path / "recipe.toml"
    copy.write_text(recipe.to_toml())
    assert Recipe.load(copy) == recipe
    assert Recipe.load(tmp_path) == recipe  # the recipe in a run folder
    assert "weight_decay" in recipe.to_toml()


@given(
    lr=st.floats(1e-9, 1.0),
    steps=st.none() | st.integers(1, 10**9),
    seed=st.integers(0, 2**40),
    prompts=st.lists(st.text(st.characters(exclude_categories=["Cs"]))).map(tuple),
)
def test_toml_round_trip(lr: float, steps: int | None, seed: int, prompts: tuple[str, ...]) -> None:
    recipe = Recipe(
        name="any",
        data={"corpus": "some.txt"},  # type: ignore[arg-type]
        train=Train(lr=lr, max_steps=steps, seed=seed),
        samples=Samples(prompts=prompts),
    )
    assert Recipe.from_table(tomllib.loads(recipe.to_toml())) == recipe


def test_the_default_name_is_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "poems.toml"
    file.write_text('[data]\ncorpus = "poems.txt"\n')
    assert Recipe.load(file).name == "poems"


def test_a_study_is_not_a_recipe(tmp_path: Path) -> None:
    study = tmp_path / "rates.toml"
    study.write_text('base = "a.toml"\n\n[variants.low]\n"train.lr" = 1e-4\n')
    with pytest.raises(UserError, match=r"rates\.toml: is a study.* regard compare"):
        Recipe.load(study)


def test_a_byte_order_mark_is_ignored(file: Path) -> None:
    plain = Recipe.load(file)
    file.write_text("\ufeff" + SMALL, encoding="utf-8")
    assert Recipe.load(file) == plain


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("train.lr=2e-3", "lr", 2e-3),
        ("train.max_steps = 7", "max_steps", 7),
        ("train.batches=bucketed", "batches", "bucketed"),
        ('train.batches="padded"', "batches", "padded"),
        ("train.tensorboard=true", "tensorboard", True),
    ],
)
def test_overrides_are_parsed_as_toml_and_bare_words_are_text(
    file: Path, override: str, key: str, value: object
) -> None:
    assert getattr(Recipe.load(file, overrides=[override]).train, key) == value


def test_the_last_override_wins_and_may_set_a_nested_key(file: Path) -> None:
    recipe = Recipe.load(
        file, overrides=["train.lr=1", "train.lr=2", "model.positions.kind=sinusoidal"]
    )
    assert recipe.train.lr == 2
    assert recipe.to_table()["model"]["positions"]["kind"] == "sinusoidal"


def test_an_override_may_set_a_key_of_a_part_given_by_name(file: Path) -> None:
    file.write_text(SMALL.replace('{ kind = "dot" }', '"dot"'))
    with pytest.raises(UserError, match=r"unknown setting model\.attention\.sharpness"):
        Recipe.load(file, overrides=["model.attention.sharpness=2"])


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("lr = 1e-3", 'lr = "fast"', "small.toml, line 16: train.lr"),
        ("heads = 2", "head = 2", "small.toml, line 11: unknown setting model.head"),
        ('kind = "dot"', 'kind = "dit"', "small.toml, line 13: model.attention.kind"),
        ("[train]", "[trane]", "small.toml, line 15: unknown setting trane"),
        ("heads = 2", "heads = 3", "small.toml, line 9: model: heads = 3 does not divide"),
        ('name = "small"', "name = small", "small.toml, line 1, column 8: not valid TOML"),
    ],
)
def test_errors_name_the_line(file: Path, old: str, new: str, where: str) -> None:
    file.write_text(SMALL.replace(old, new))
    with pytest.raises(UserError) as refused:
        Recipe.load(file)
    assert where in str(refused.value)


def test_errors_name_the_override(file: Path) -> None:
    with pytest.raises(UserError, match=r"--set train\.lr: train\.lr = -1 .* allowed"):
        Recipe.load(file, overrides=["train.lr=-1"])


def test_init_from_is_resolved_beside_the_recipe(file: Path) -> None:
    (file.parent / "first.toml").write_text(SMALL)
    file.write_text('init_from = "first.toml"\n' + SMALL)
    assert Recipe.load(file).init_from == str(file.parent / "first.toml")


def test_the_fingerprint_depends_on_the_settings_and_not_on_the_name(file: Path) -> None:
    recipe = Recipe.load(file)
    renamed = Recipe.load(file, overrides=["name=other"])
    changed = Recipe.load(file, overrides=["train.lr=2e-3"])
    explicit = Recipe.load(file, overrides=["train.max_grad_norm=1.0"])  # the default
    assert renamed.fingerprint == recipe.fingerprint == explicit.fingerprint
    assert changed.fingerprint != recipe.fingerprint


def test_differences_name_each_setting(file: Path) -> None:
    recipe = Recipe.load(file)
    other = Recipe.load(file, overrides=["train.lr=2e-3", "model.heads=4"])
    assert recipe.differences(other) == [
        "model.heads: 2 here, 4 there",
        "train.lr: 0.001 here, 0.002 there",
    ]
    assert recipe.differences(recipe) == []


def is_study(file: Path) -> bool:
    return "base" in tomllib.loads(file.read_text())


@pytest.mark.parametrize("shipped", sorted(SHIPPED.rglob("*.toml")), ids=lambda p: p.stem)
def test_shipped_recipes_and_studies_are_valid(shipped: Path) -> None:
    if is_study(shipped):
        loaded = LoadedStudy.load(shipped)
        assert loaded.study.name == shipped.stem
        assert loaded.study.question.endswith("?")
        assert len(loaded.variants) > 1
    else:
        assert Recipe.load(shipped).name == shipped.stem


TABLES: dict[str, type[Settings]] = {
    "data": Data,
    "tokenizer": Bpe,
    "model": Decoder,
    "train": Train,
    "samples": Samples,
}
SYNONYM_CASES = [
    (table, synonym, name)
    for table, cls in TABLES.items()
    for synonym, names in sorted(SYNONYMS.items())
    if synonym not in cls.model_fields
    for name in [name for name in names if name in cls.model_fields][:1]
]


@pytest.mark.parametrize(("table", "synonym", "name"), SYNONYM_CASES)
def test_a_synonym_is_answered_with_our_name(table: str, synonym: str, name: str) -> None:
    recipe = {"name": "a", "data": {"corpus": "a.txt"}}
    recipe[table] = {**recipe.get(table, {}), synonym: 1}
    expected = rf"unknown setting {table}\.{synonym} — did you mean {table}\.{name}"
    with pytest.raises(UserError, match=expected):
        Recipe.from_table(recipe)


@pytest.mark.parametrize(
    "synonym", ["start", "resume_from", "pretrained", "checkpoint", "from_pretrained"]
)
def test_synonyms_of_init_from(synonym: str) -> None:
    with pytest.raises(UserError, match=rf"unknown setting {synonym} — did you mean init_from"):
        Recipe.from_table({"name": "a", "data": {"corpus": "a.txt"}, synonym: "runs/a"})
