"""Names of settings in other tools, and earlier ones of regard, lead to a setting that exists."""

import re
from collections.abc import Iterator

import pytest

from regard.api import catalogs
from regard.core.errors import UserError, closest
from regard.core.settings import (
    Settings,
    catalog_field,
    nested_settings,
    read_settings,
    settings_class,
)
from regard.core.synonyms import INSTEAD, PART_SYNONYMS, SETTING_TABLES, SYNONYMS, VALUE_HINTS
from regard.data.corpus import Data
from regard.models.families.decoder import Decoder
from regard.runs.recipe import Recipe
from regard.training.settings import Train


def settings_classes(cls: type[Settings], seen: set[type[Settings]]) -> Iterator[type[Settings]]:
    """`cls`, its sections and every part that it can select, recursively."""
    if cls in seen:
        return
    seen.add(cls)
    yield cls
    for field in cls.model_fields.values():
        choice, section = catalog_field(field), field.annotation
        if choice is not None:
            for name in choice.catalog.names():
                yield from settings_classes(settings_class(choice.catalog, name), seen)
        elif isinstance(section, type) and issubclass(section, Settings):
            yield from settings_classes(section, seen)


CLASSES = list(settings_classes(Recipe, set()))
REQUIRED = {Recipe: {"name": "a", "data": {"corpus": "a.txt"}}, Data: {"corpus": "a.txt"}}


@pytest.mark.parametrize(("other", "names"), sorted(SYNONYMS.items()))
def test_synonym_suggests_an_existing_setting(other: str, names: tuple[str, ...]) -> None:
    suggested = set()
    for cls in CLASSES:
        meant = next((name for name in names if name in cls.model_fields), None)
        if meant is None or other in cls.model_fields:
            continue
        suggested.add(meant)
        required = REQUIRED.get(cls, {})
        if all(
            not field.is_required() or key in required for key, field in cls.model_fields.items()
        ):
            with pytest.raises(UserError) as caught:
                read_settings(cls, {**required, other: 1}, key="table")
            message = f"unknown setting table.{other} — did you mean table.{meant}?"
            assert message in str(caught.value)
    assert suggested


def test_every_target_is_a_setting() -> None:
    targets = {name for names in SYNONYMS.values() for name in names}
    assert targets <= {name for cls in CLASSES for name in cls.model_fields}
    assert VALUE_HINTS.keys() <= SYNONYMS.keys()


def test_changed_value_is_explained() -> None:
    with pytest.raises(UserError, match=r"did you mean train\.batch_tokens\? It counts tokens"):
        Recipe.from_table({"name": "a", "data": {"corpus": "a"}, "train": {"batch_size": 32}})
    with pytest.raises(UserError, match=r"train\.warmup_ratio\b.* fraction of all steps"):
        Recipe.from_table({"name": "a", "data": {"corpus": "a"}, "train": {"warmup_steps": 9}})


def test_settings_stand_in_the_tables_that_are_named() -> None:
    sections = {name: nested_settings(field) for name, field in Recipe.model_fields.items()}
    for name, table in SETTING_TABLES.items():
        field = Recipe.model_fields[table]
        choice, section = catalog_field(field), sections[table]
        if choice is not None and name == choice.selector:
            continue
        classes = (
            [section]
            if section is not None
            else [settings_class(choice.catalog, part) for part in choice.catalog.names()]
        )
        assert any(name in cls.model_fields for cls in classes), f"{table}.{name}"


@pytest.mark.parametrize(("other", "sentence"), sorted(INSTEAD.items()))
def test_what_there_is_instead_exists(other: str, sentence: str) -> None:
    named = re.findall(r"\b(train|model|tokenizer|data)\.(\w+)", sentence)
    assert all(SETTING_TABLES.get(name) == table for table, name in named)
    assert not any(other in cls.model_fields for cls in (Recipe, Train, Decoder))


def test_other_names_of_parts_mean_parts() -> None:
    names = {entry.name for catalog in catalogs() for entry in catalog}
    assert {ours for meant in PART_SYNONYMS.values() for ours in meant} <= names
    for catalog in catalogs():
        for other in PART_SYNONYMS.keys() - set(catalog.names()):
            meant = [one for one in PART_SYNONYMS[other] if one in catalog.names()]
            if meant:
                with pytest.raises(UserError, match=f"did you mean {meant[0]}"):
                    catalog.get(other)


@pytest.mark.parametrize(
    ("given", "known", "meant"),
    [
        ("widht", ["width", "heads"], "width"),
        ("Width", ["width"], "width"),
        ("sliding", ["sliding-window", "causal"], "sliding-window"),
        ("rope", ["group", "dot"], ""),
        ("wandb", ["width", "norm"], ""),
        ("zz", ["a", "b"], ""),
    ],
)
def test_only_a_close_spelling_is_suggested(given: str, known: list[str], meant: str) -> None:
    suggestion = closest(given, known)
    assert suggestion == (f" — did you mean {meant}?" if meant else "")
