"""Settings: frozen, validated, documented pydantic models; one class configures one part.

A settings class lives beside the part it configures. The string under each field documents it and
becomes the help text. A field that selects a part from a catalogue is written

    attention: Annotated[Settings, CatalogField(ATTENTION)] = Dot()

and takes, in a recipe, `attention = { kind = "additive", hidden = 16 }` or just `"additive"`.
`read_settings` turns a plain table into settings. An invalid table becomes a `UserError` that names
the key, the given value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from regard.core.catalog import Catalog, UnknownPartError, suggest_part
from regard.core.errors import UserError, closest
from regard.core.setting_docs import setting_docs
from regard.core.synonyms import INSTEAD, SETTING_TABLES, SYNONYMS, VALUE_HINTS
from regard.core.untrusted import INTEGER_LIMIT, shorten


class Settings(BaseModel):
    """Base class of all settings: unknown keys are errors, values are frozen."""

    # Validators are built when first used: most of an import's settings are never set.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


@dataclass(frozen=True)
class CatalogField:
    """Annotation of a field that selects a part; the part's class reads the rest of the table."""

    catalog: Catalog
    selector: str = "kind"
    "The key of the table that names the part: `kind`, or `family` for a model."


FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"Of what is a folder's name, too."
FILE_NAME_RULE = "letters, digits and . _ -, of which the first is a letter or digit"

AnySettings = TypeVar("AnySettings", bound=Settings)
Locate = Callable[[str], str]


def no_location(key: str) -> str:
    """`Locate` for tables that come from no file."""
    return ""


def read_settings(
    cls: type[AnySettings], table: Mapping[str, Any], *, key: str = "", locate: Locate = no_location
) -> AnySettings:
    """Validate `table` as `cls`; `key` is its dotted key, `locate` gives a key's file and line."""
    values = dict(table)
    for name, value in values.items():
        if isinstance(value, int) and not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
            raise UserError(
                f"{_join(key, name)} = {shorten(value)} is not allowed: give a number below 2⁶³",
                topic="recipe",
                where=locate(_join(key, name)),
            )
    for name, field in cls.model_fields.items():
        if name not in values or isinstance(values[name], Settings):
            continue
        inner, choice = _join(key, name), catalog_field(field)
        if choice is not None:
            default = field.default if isinstance(field.default, Settings) else None
            values[name] = _read_part(
                choice, values[name], default=default, key=inner, locate=locate
            )
        elif (section := nested_settings(field, values[name])) is not None:
            values[name] = _read_section(section, values[name], key=inner, locate=locate)
    try:
        return cls.model_validate(values)
    except ValidationError as problem:
        raise _explain(problem, cls, key=key, locate=locate) from None


def catalog_field(field: FieldInfo) -> CatalogField | None:
    """The catalogue that a field selects from, if it selects a part."""
    return next((note for note in field.metadata if isinstance(note, CatalogField)), None)


def to_table(settings: Settings) -> dict[str, Any]:
    """The inverse of `read_settings`: every value, parts with their catalogue names."""
    table: dict[str, Any] = {}
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        choice = catalog_field(field)
        if choice is not None and value is not None:
            table[name] = {choice.selector: catalog_name(value, choice.catalog), **to_table(value)}
        elif isinstance(value, Settings):
            table[name] = to_table(value)
        elif value is not None:  # TOML has no null: an absent key means the default, None
            table[name] = list(value) if isinstance(value, tuple) else value
    return table


def settings_class(catalog: Catalog, name: str) -> type[Settings]:
    """The settings class registered under `name`."""
    part = catalog.get(name).part
    if not (isinstance(part, type) and issubclass(part, Settings)):
        raise TypeError(f"{catalog.name} {name!r} is not a settings class")
    return part


def catalog_name(settings: Settings, catalog: Catalog) -> str:
    """The name under which the class of `settings` is registered."""
    for entry in catalog:
        if entry.part is type(settings):
            return entry.name
    raise UserError(f"{type(settings).__name__} is not in the {catalog.name} catalogue")


class Setting(NamedTuple):
    """A field of a settings class, as a recipe writes and documents it."""

    key: str
    field: FieldInfo
    doc: str
    "The string under the field, on one line."


def all_settings(cls: type[Settings], key: str = "") -> Iterator[Setting]:
    """Every field of a table of `cls`, nested keys dotted; a part from a catalogue is one key."""
    docs = setting_docs(cls)
    for name, field in cls.model_fields.items():
        dotted = _join(key, name)
        yield Setting(dotted, field, " ".join(docs.get(name, "").split()))
        section = nested_settings(field)
        if section is not None:
            yield from all_settings(section, dotted)


def nested_settings(field: FieldInfo, value: Any = None) -> type[Settings] | None:
    """The settings class of a field that is a nested table, or may be one and is given one."""
    inner = field.annotation
    # `tuple[int, ...] | SeedPlan`: a list, or a table.
    kinds = get_args(inner) if isinstance(value, Mapping) else (inner,)
    for kind in (inner, *kinds):
        if catalog_field(field) is None and isinstance(kind, type) and issubclass(kind, Settings):
            return kind
    return None


def _read_section(section: type[Settings], value: Any, *, key: str, locate: Locate) -> Settings:
    if not isinstance(value, Mapping):
        raise UserError(
            f"{key} is a table: write [{key}] and its settings below it",
            topic="recipe",
            where=locate(key),
        )
    return read_settings(section, value, key=key, locate=locate)


def _read_part(
    choice: CatalogField, value: Any, *, default: Settings | None, key: str, locate: Locate
) -> Settings:
    """A part from its name or table; a table without a name means the default part."""
    table = {choice.selector: value} if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        raise UserError(
            f"{key} takes a name or a table with {choice.selector} = …, not {shorten(value)}",
            topic="recipe",
            where=locate(key),
        )
    rest = dict(table)
    name = rest.pop(choice.selector, None)
    if name is None and default is not None:
        name = catalog_name(default, choice.catalog)
    if name is None:
        raise UserError(
            f"{key} needs {choice.selector} = …; known: {', '.join(choice.catalog.names())}",
            topic="recipe",
            where=locate(key),
        )
    if name not in choice.catalog.names():
        raise UnknownPartError(
            f"{key}.{choice.selector}: unknown {choice.catalog.name} {shorten(name)}"
            f"{suggest_part(str(name), choice.catalog.names())}",
            topic="recipe",
            where=locate(_join(key, choice.selector)) or locate(key),
        )
    part = settings_class(choice.catalog, name)
    for given in rest:
        owners = () if given in part.model_fields else _owners(given, choice.catalog)
        if owners:
            raise UserError(
                f"{_join(key, given)} belongs to {choice.selector} = {' or '.join(owners)}, and "
                f"this is {name!r}",
                topic="recipe",
                where=locate(_join(key, given)),
                hint="Leave it out, or choose another.",
            )
    return read_settings(part, rest, key=key, locate=locate)


def _owners(setting: str, catalog: Catalog) -> tuple[str, ...]:
    """The parts of a catalogue that have a setting of this name, quoted."""
    return tuple(
        repr(entry.name)
        for entry in catalog
        if setting in settings_class(catalog, entry.name).model_fields
    )


def _explain(
    problem: ValidationError, cls: type[Settings], *, key: str, locate: Locate
) -> UserError:
    """One validation error as one sentence."""
    errors = problem.errors()
    # A table under another name is missing, too: the name is the mistake.
    error = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    # Of a field with several types, pydantic also names the type: `tuple[int, ...]`.
    path = [str(step) for step in error["loc"] if "[" not in str(step)]
    dotted = _join(key, ".".join(path))
    where = locate(dotted)
    if error["type"] == "extra_forbidden":
        known = [setting.key for setting in all_settings(cls, key)]
        return _unknown_setting(dotted, known, where=where)
    if error["type"] == "missing":
        doc = next((known.doc for known in all_settings(cls, key) if known.key == dotted), "")
        hint = f"Give it: {doc}" if doc else "Give it."
        return UserError(f"{dotted} is missing", topic="recipe", where=where, hint=hint)
    message = _allowed(error)
    if error["type"] == "value_error":
        given = f"{dotted}: {message}" if path else f"{key}: {message}" if key else message
        return UserError(given, topic="recipe", where=where)
    return UserError(
        f"{dotted} = {shorten(error['input'])} is not allowed: give {message}",
        topic="recipe",
        where=where,
    )


def _unknown_setting(dotted: str, known: list[str], *, where: str) -> UserError:
    """Suggest what people mean by the name, else the closest spelling, else say what there is."""
    parent, _, given = dotted.rpartition(".")
    name = given.lower().replace("-", "_")
    siblings = [key.rpartition(".")[2] for key in known if key.rpartition(".")[0] == parent]
    meanings = [meaning for meaning in (name, *SYNONYMS.get(name, ())) if meaning != given]
    meant = next((_join(parent, one) for one in meanings if one in siblings), None)
    if meant is None:
        candidates = (name, *SYNONYMS.get(name, ()))
        tables = ((one, SETTING_TABLES.get(one, parent)) for one in candidates)
        meant = next((_join(table, one) for one, table in tables if table != parent), None)
    if meant is None and name in INSTEAD:
        guess, hint = f": {INSTEAD[name]}", ""
    elif meant is None:
        close = closest(given, siblings, within=parent)
        guess, hint = close or f"; known: {', '.join(sorted(siblings))}", ""
    else:
        guess, hint = f" — did you mean {meant}?", VALUE_HINTS.get(name, "")
    return UserError(f"unknown setting {dotted}{guess}", topic="recipe", where=where, hint=hint)


def _allowed(error: ErrorDetails) -> str:
    """What pydantic expected: `a number greater than 0`."""
    category = error["type"]
    expected = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if category == "too_short":
        return "a list that is not empty"
    if category == "string_too_short":
        return "a text that is not empty"
    if category.endswith("_parsing"):
        return expected.partition(", unable")[0].replace("a valid", "a").replace("a int", "an int")
    if category in ("tuple_type", "list_type"):
        return "a list, such as [0, 1, 2]"
    if category == "string_pattern_mismatch" and error["ctx"]["pattern"] == FILE_NAME:
        return FILE_NAME_RULE
    if category.startswith(("greater_than", "less_than")):
        return f"a number {expected}"
    return expected.replace("String should match pattern", "a text of the form")


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key and name else key or name
