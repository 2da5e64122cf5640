"""Names of settings in other tools, and earlier ones of regard, lead to a setting that exists."""

from collections.abc import Iterator

import pytest

from regard.core.errors import UserError
from regard.core.settings import Settings, catalog_field, read_settings, settings_class
from regard.core.synonyms import SYNONYMS, VALUE_HINTS
from regard.data.corpus import Data
from regard.runs.recipe import Recipe


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
