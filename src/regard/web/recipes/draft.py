"""What a form holds, as a recipe: texts by key → TOML, and a sentence at each field that is wrong.

The TOML has only what differs from the defaults, in the order of recipes. Each wrong setting is
left out and the rest is read again, so that every mistake is said at once, in the sentence that
`regard train` would print for this file. Refused are settings that reach out of the page: paths,
packages, addresses, and kinds that are broken on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from regard.core.errors import UserError
from regard.core.settings import (
    CatalogField,
    Settings,
    catalog_field,
    nested_settings,
    settings_class,
    to_table,
)
from regard.core.toml import TomlTable, flatten, key_lines, parse_override
from regard.runs.proposals.recipe_text import RecipeSetting, recipe_toml, toml_value
from regard.runs.recipe import Recipe
from regard.web.recipes.fields import (
    SOURCE_KEYS,
    SPLIT_KEYS,
    Texts,
    broken_reason,
    chosen_part,
    default_part,
    find_setting,
    types_of,
)
from regard.web.recipes.sources import Sources

KEY = re.compile(r"[a-z_]+(\.[a-z_]+){0,4}")
INHERITED = ("model", "tokenizer", "objective")
"Tables that a recipe with an initial model leaves out to take over its own."
PLAIN_TEXTS = frozenset(
    {
        *("name", "data.text", "data.group", "train.device", "samples.prompts", "adapt.targets"),
        *(
            f"task.{name}"
            for name in (
                *("text", "label", "question", "image", "context", "answer", "answers"),
                *("answer_starts", "impossible", "title", "first", "second", "score", "seen"),
                *("subject", "query", "document", "relevance", "query_id", "collection_id"),
                *("collection_text", "summary", "tokens", "tags", "source", "target"),
                *("template", "words", "seen_in.text", "seen_in.group"),
            )
        ),
    }
)
"Settings whose texts stand for columns and the like; in any other setting a text is refused."
FOLLOWING = ("objective.kind", "train.batches", "train.max_steps")
"Settings whose defaults follow from others."
MAX_ERRORS = 20


@dataclass
class RecipeDraft:
    """A form as it stands."""

    table: dict[str, Any] = field(default_factory=dict)
    "Without what is wrong."
    toml: str = ""
    "With what is wrong, as far as TOML can say it."
    recipe: Recipe | None = None
    "If nothing is wrong."
    errors: dict[str, str] = field(default_factory=dict)
    "A sentence by key; the empty key stands for the whole."


def read_draft(texts: Texts, sources: Sources) -> RecipeDraft:
    """The recipe of a form."""
    draft = RecipeDraft()
    table: dict[str, Any] = {}
    for key, text in texts.items():
        try:
            _put(table, key, _value(key, text, texts, sources))
        except UserError as problem:
            draft.errors[key] = str(problem)
    draft.toml = recipe_text(table)
    draft.table = table
    lines = TomlTable(Path(f"{table.get('name', 'recipe')}.toml"), {}, key_lines(draft.toml))
    for _ in range(MAX_ERRORS):
        located: list[str] = []

        def locate(key: str, located: list[str] = located) -> str:
            located.append(key)
            return lines.locate(key)

        try:
            recipe = Recipe.from_table(table, locate=locate)
        except UserError as problem:
            keys = _keys_of(problem, located, table, texts)
            draft.errors.setdefault(keys[0], str(problem))
            removed = [_remove(table, key) for key in keys]
            if not any(removed):
                break
        else:
            draft.recipe = recipe if not draft.errors else None
            break
    return draft


def recipe_text(table: Mapping[str, Any]) -> str:
    """A recipe's table as TOML: what differs from the defaults, in the order of recipes."""
    lean = lean_table(table)
    tables: dict[str, list[RecipeSetting]] = {"": []}
    for key, value in lean.items():
        if key in _SECTIONS and isinstance(value, dict):
            tables[key] = [RecipeSetting(name, one) for name, one in value.items()]
        else:
            tables[""].append(RecipeSetting(key, value))
    return recipe_toml((), tables).lstrip("\n")


def lean_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without settings that have their default; an unknown key stays, for it is a mistake."""
    keeps = INHERITED if table.get("init_from") else ()
    return _lean(Recipe, table, keeps=keeps)


def form_texts(recipe: Recipe, sources: Sources) -> dict[str, str]:
    """The inverse of `read_draft`: what the form shows for a recipe."""
    given = recipe.to_table()
    if recipe.init_from is not None:  # what was not set comes from the initial model
        given = {key: one for key, one in given.items() if key in recipe.model_fields_set}
    texts: dict[str, str] = {}
    _add_texts(texts, lean_table(given), sources)
    for key in FOLLOWING:
        without = {name: text for name, text in texts.items() if name != key}
        if key in texts and read_draft(without, sources).recipe == recipe:
            texts = without
    return texts


_SECTIONS = tuple(
    name
    for name, one in Recipe.model_fields.items()
    if catalog_field(one) is not None or nested_settings(one) is not None
)


def _add_texts(
    texts: dict[str, str], table: Mapping[str, Any], sources: Sources, key: str = ""
) -> None:
    for name, value in table.items():
        dotted = f"{key}.{name}" if key else name
        setting = find_setting(dotted, texts)
        choice = catalog_field(setting) if isinstance(setting, FieldInfo) else None
        if choice is not None and isinstance(value, str):
            texts[f"{dotted}.{choice.selector}"] = value
        elif isinstance(setting, FieldInfo) and (choice or nested_settings(setting, {})):
            _add_texts(texts, value, sources, dotted)
        else:
            texts[dotted] = _text(dotted, value, sources)


def _text(key: str, value: Any, sources: Sources) -> str:
    if key in SOURCE_KEYS and isinstance(value, str):
        return sources.find_id(key, value)
    if key in SOURCE_KEYS and isinstance(value, list | tuple):
        return toml_value([sources.find_id(key, one) for one in value])
    return value if isinstance(value, str) else toml_value(value)


def _value(key: str, text: str, texts: Texts, sources: Sources) -> Any:
    """What a text means, as TOML would have it."""
    if not KEY.fullmatch(key):
        raise UserError(f"unknown setting {key[:40]!r}", topic="recipe")
    setting = find_setting(key, texts)
    if isinstance(setting, CatalogField):
        if why := broken_reason(setting.catalog, text):
            raise UserError(
                f"{key} = {text!r} is broken on purpose ({why}), and the page trains no such kind",
                topic="recipe",
                hint="A study in a file may: regard compare recipes/masking.toml.",
            )
        return text
    if key in SPLIT_KEYS or key in SOURCE_KEYS:
        return _source(key, text, sources)
    if setting is None or str not in types_of(setting.annotation):
        return _plain(key, text, setting)
    if key not in PLAIN_TEXTS:
        raise UserError(f"{key} is not set over the page", topic="recipe")
    is_text = types_of(setting.annotation) <= {str, type(None)} and not _is_list(setting)
    return text if is_text else parse_override(f"{key}={text}")[1]


def _is_list(setting: FieldInfo) -> bool:
    return "tuple" in str(setting.annotation) or "dict" in str(setting.annotation)


def _plain(key: str, text: str, setting: FieldInfo | None) -> Any:
    """A number or a truth value; `.5` is a number here, though not in TOML."""
    _, value = parse_override(f"{key}={text}")
    if (
        isinstance(value, str)
        and setting is not None
        and {int, float} & types_of(setting.annotation)
    ):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _source(key: str, text: str, sources: Sources) -> Any:
    value = parse_override(f"{key}={text}")[1] if text[:1] in "[{+-.0123456789" else text
    if isinstance(value, int | float | dict) and key in SPLIT_KEYS:
        return value
    if isinstance(value, list):
        return [sources.resolve(key, str(one)) for one in value]
    return sources.resolve(key, text)


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    *names, last = key.split(".")
    for name in names:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise UserError(f"{name} is not a table, so {key} cannot be set", topic="recipe")
    table[last] = value


def _remove(table: dict[str, Any], key: str) -> bool:
    """Leave out a setting that is wrong, and a table that has no other."""
    name, _, rest = key.partition(".")
    inner = table.get(name)
    if not rest:
        return table.pop(name, None) is not None
    if not isinstance(inner, dict) or not _remove(inner, rest):
        return False
    if not inner:
        del table[name]
    return True


def _keys_of(
    problem: UserError, located: list[str], table: Mapping[str, Any], texts: Texts
) -> list[str]:
    """The settings that a sentence is about, that which gets it first: the one that was located,
    else those that it names; of those in a table, the given ones before defaults."""
    key = located[-1] if located else ""
    given = flatten(table)
    words: list[str] = re.findall(r"[a-z_]+(?:\.[a-z_]+)*", problem.what)
    if key in _SECTIONS and key in table:
        named = [f"{key}.{word}" for word in words if find_setting(f"{key}.{word}", texts)]
        return [one for one in named if one in given] or named or [key]
    if key:
        return ["data.corpus" if key == "data" else key]
    named = [word for word in words if word in given or (word in _SECTIONS and word in table)]
    return named or [word for word in words if word.split(".")[0] in _SECTIONS] or [""]


def _lean(
    cls: type[Settings], table: Mapping[str, Any], *, keeps: tuple[str, ...] = ()
) -> dict[str, Any]:
    lean: dict[str, Any] = {}
    for name, setting in cls.model_fields.items():
        if name not in table:
            continue
        value, choice = table[name], catalog_field(setting)
        section = nested_settings(setting, {})
        if choice is not None and isinstance(value, str | Mapping):
            part = {choice.selector: value} if isinstance(value, str) else dict(value)
            kept = _lean_part(choice, setting, part)
            if not kept and name in keeps:
                kept = {choice.selector: part.get(choice.selector, default_part(choice, setting))}
            if kept:
                # As recipes write it: attention = "dot", but a table of its own below [model].
                is_name = cls is not Recipe and list(kept) == [choice.selector]
                lean[name] = kept[choice.selector] if is_name else kept
        elif section is not None and isinstance(value, Mapping):
            if kept := _lean(section, value):
                lean[name] = kept
        elif not _is_default(setting, value):
            lean[name] = value
    unknown = {name: value for name, value in table.items() if name not in cls.model_fields}
    return lean | unknown


def _lean_part(
    choice: CatalogField, setting: FieldInfo, table: Mapping[str, Any]
) -> dict[str, Any]:
    given = str(table.get(choice.selector, ""))
    name = chosen_part(choice, setting, given)
    rest = {key: one for key, one in table.items() if key != choice.selector}
    kept = _lean(settings_class(choice.catalog, name), rest) if name else rest
    # The default of the objective follows the family, so that none is equal to another's.
    default = default_part(choice, setting) if choice.catalog.name != "objective" else ""
    return kept if given in ("", default) else {choice.selector: given, **kept}


def _is_default(setting: FieldInfo, value: Any) -> bool:
    if setting.is_required():
        return False
    default = setting.get_default(call_default_factory=True)
    if isinstance(default, Settings):
        default = to_table(default)
    given = tuple(value) if isinstance(value, list) else value
    return bool(given == default and isinstance(given, bool) == isinstance(default, bool))
