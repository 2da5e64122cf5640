"""A field for each setting of a recipe, with its help text: what the form shows, from the schema.

A part from a catalogue is a choice and, below it, the settings of the chosen part. Kinds that are
broken on purpose are no choice here. Values are texts by dotted key, as the browser sends them;
an empty one means the default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from regard.core.catalog import Catalog, Entry
from regard.core.errors import UserError
from regard.core.settings import (
    CatalogField,
    Settings,
    all_settings,
    catalog_field,
    catalog_name,
    nested_settings,
    settings_class,
)
from regard.runs.proposals.recipe_text import toml_value
from regard.runs.recipe import Recipe
from regard.runs.recipe_paths import PATH_KEYS

SOURCE_KEYS = (*PATH_KEYS, "objective.phrases")
"Settings that name files: here they take built-in corpora and ids from a list, never a path."
SPLIT_KEYS = ("data.dev", "data.test", "task.seen_in.dev", "task.seen_in.test")
"Of these, those that may be a number as well."

Texts = Mapping[str, str]
"What stands in the form, by dotted key; empty texts are left out."
Control = Literal["text", "flag", "choice", "source", "split", "part", "table"]
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


@dataclass(frozen=True)
class Choice:
    value: str
    label: str
    doc: str = ""


@dataclass(frozen=True)
class FormField:
    """One setting, or a table of them."""

    key: str
    control: Control
    doc: str
    default: str = ""
    "As TOML writes it; empty where there is none."
    value: str = ""
    choices: tuple[Choice, ...] = ()
    fields: tuple[FormField, ...] = ()
    "Of a table, or of the chosen part."
    catalog: str = ""
    selector: str = ""
    "Of a part: the key that names it."
    allowed: str = ""
    is_required: bool = False

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    def walk(self) -> Iterator[FormField]:
        """This field and all below it."""
        yield self
        for field in self.fields:
            yield from field.walk()

    @property
    def changed(self) -> int:
        """How many settings in it are given."""
        return sum(bool(field.value) for field in self.walk())


def recipe_fields(texts: Texts) -> tuple[FormField, ...]:
    """Every setting of a recipe, under the parts that are chosen."""
    return settings_fields(Recipe, "", texts)


def settings_fields(cls: type[Settings], key: str, texts: Texts) -> tuple[FormField, ...]:
    """The fields of a table of `cls` at a dotted key."""
    depth = key.count(".") + 1 if key else 0
    return tuple(
        _field(setting.key, setting.field, setting.doc, texts)
        for setting in all_settings(cls, key)
        if setting.key.count(".") == depth
    )


def part_fields(catalog: Catalog, name: str, key: str, texts: Texts) -> tuple[FormField, ...]:
    """The settings of a part that is chosen at a key."""
    return settings_fields(settings_class(catalog, name), key, texts)


def form_catalogs() -> dict[str, Catalog]:
    """Every catalogue that a recipe chooses from, by name."""
    found: dict[str, Catalog] = {}

    def visit(cls: type[Settings]) -> None:
        for setting in all_settings(cls):
            choice = catalog_field(setting.field)
            if choice is not None and choice.catalog.name not in found:
                found[choice.catalog.name] = choice.catalog
                for name in choice.catalog.names():
                    visit(settings_class(choice.catalog, name))

    visit(Recipe)
    return found


def broken_reason(catalog: Catalog, name: str) -> str:
    """What is wrong with a kind that is broken on purpose; empty for any other part."""
    return str(catalog.get(name).properties.get("broken") or "") if name in catalog.names() else ""


def find_setting(key: str, texts: Texts) -> FieldInfo | CatalogField | None:
    """The setting at a dotted key under the chosen parts, or what selects a part there; None if
    there is none."""
    cls: type[Settings] | None = Recipe
    path = key.split(".")
    for number, name in enumerate(path):
        field = cls.model_fields.get(name) if cls is not None else None
        at = ".".join(path[: number + 1])
        if field is None:
            return None
        if number == len(path) - 1:
            return field
        choice = catalog_field(field)
        if choice is not None:
            if path[number + 1 :] == [choice.selector]:
                return choice
            chosen = chosen_part(choice, field, texts.get(f"{at}.{choice.selector}", ""))
            cls = settings_class(choice.catalog, chosen) if chosen else None
        else:
            cls = nested_settings(field, {})
    return None


def chosen_part(choice: CatalogField, field: FieldInfo, given: str) -> str:
    """The name of a part: as given, else the default's; empty for none, or an unknown one."""
    if given:
        return given if given in choice.catalog.names() else ""
    return default_part(choice, field)


def default_part(choice: CatalogField, field: FieldInfo) -> str:
    is_part = isinstance(field.default, Settings)
    return catalog_name(field.default, choice.catalog) if is_part else ""


def types_of(annotation: Any) -> set[Any]:
    """The types that a setting takes: `int | tuple[str, ...]` has int and str."""
    arguments = [one for one in get_args(annotation) if one is not Ellipsis]
    if get_origin(annotation) is Literal:
        return {Literal}
    found = {one for argument in arguments for one in types_of(argument)}
    return found or {annotation}


def _field(key: str, field: FieldInfo, doc: str, texts: Texts) -> FormField:
    choice = catalog_field(field)
    if choice is not None:
        return _part_field(key, field, choice, doc, texts)
    section = nested_settings(field, {})
    if section is not None:
        return FormField(key, "table", doc, fields=settings_fields(section, key, texts))
    control: Control = "text"
    choices: tuple[Choice, ...] = ()
    if key in SPLIT_KEYS:
        control = "split"
    elif key in SOURCE_KEYS:
        control = "source"
    elif field.annotation is bool:
        control = "flag"
    elif get_origin(field.annotation) is Literal:
        control = "choice"
        choices = tuple(Choice(str(one), str(one)) for one in get_args(field.annotation))
    return FormField(
        key,
        control,
        doc,
        default=_default_text(field),
        value=texts.get(key, ""),
        choices=choices,
        allowed=_allowed(field),
        is_required=field.is_required(),
    )


def _part_field(
    key: str, field: FieldInfo, choice: CatalogField, doc: str, texts: Texts
) -> FormField:
    given = texts.get(f"{key}.{choice.selector}", "")
    name = chosen_part(choice, field, given)
    return FormField(
        key,
        "part",
        doc,
        default=default_part(choice, field),
        value=given,
        choices=tuple(_choices(choice.catalog)),
        fields=part_fields(choice.catalog, name, key, texts) if name else (),
        catalog=choice.catalog.name,
        selector=f"{key}.{choice.selector}",
    )


def _choices(catalog: Iterable[Entry]) -> Iterator[Choice]:
    for entry in catalog:
        if not entry.properties.get("broken"):
            yield Choice(entry.name, entry.name, entry.summary)


def _default_text(field: FieldInfo) -> str:
    """As TOML; TOML has no null, so a default of None is empty."""
    value = None if field.is_required() else field.get_default(call_default_factory=True)
    if value is None or isinstance(value, str):
        return value or ""
    return toml_value(value)


def _allowed(field: FieldInfo) -> str:
    """`above 0, below 1`"""
    found: list[str] = []
    for note in field.metadata:
        for bound, words in BOUNDS.items():
            limit = getattr(note, bound, None)
            if limit is not None and (bound, limit) != ("ge", 0):
                found.append(
                    f"{words} {limit:,}" if isinstance(limit, int) else f"{words} {limit:g}"
                )
    return ", ".join(found)


def read_texts(body: bytes) -> dict[str, str]:
    """The texts of a form, as the browser sends them; a `UserError` for anything else."""
    try:
        values = json.loads(body)["values"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError('give the settings as JSON: {"values": {…}}', topic="recipe") from None
    return check_texts(values.items() if isinstance(values, dict) else [("", None)])


MAX_SETTINGS, MAX_TEXT, MAX_KEY = 300, 4000, 100
"Of a form: no recipe has as many, or as long ones."


def check_texts(pairs: Iterable[Sequence[Any]]) -> dict[str, str]:
    """Those that are not empty, by key."""
    found: dict[str, str] = {}
    for key, text in pairs:
        if not isinstance(key, str) or not isinstance(text, str):
            raise UserError("give every setting as a text", topic="recipe")
        if len(key) > MAX_KEY or len(text) > MAX_TEXT or len(found) >= MAX_SETTINGS:
            raise UserError(
                f"more than {MAX_SETTINGS} settings, or one of more than {MAX_TEXT:,} characters",
                topic="recipe",
            )
        if text.strip():
            found[key] = text
    return found
