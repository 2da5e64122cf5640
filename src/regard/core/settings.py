"""Settings: the frozen, validated, documented values that build a part.

A settings class lives beside the part it configures. The string under each field documents it and
becomes the help text. A field that names a part is written

    attention: Annotated[Settings, Named(ATTENTION)] = Dot()

and takes, in a recipe, `attention = { kind = "additive", hidden = 16 }` or just `"additive"`.
`read_settings` turns a plain table into settings; what it cannot use becomes a `UserError` that
names the key, what was given and what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from regard.core.catalog import Catalog, UnknownPartError
from regard.core.errors import UserError, did_you_mean


class Settings(BaseModel):
    """Base of every settings class: unknown keys refused, values frozen, docstrings kept."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


@dataclass(frozen=True)
class CatalogField:
    """Marks a field whose table names its part; the part's own class reads the rest of it."""

    catalog: Catalog
    selector: str = "kind"
    "The key that names the part in a recipe's table: `kind`, or `family` for a model."


SYNONYMS = {
    "learning_rate": "lr",
    "steps": "max_steps",
    "batch_size": "batch_tokens",
    "dim": "width",
    "hidden_size": "width",
    "n_embd": "width",
    "n_layer": "layers",
    "num_layers": "layers",
    "n_head": "heads",
    "num_heads": "heads",
    "block_size": "context",
    "max_length": "context",
    "vocab_size": "vocabulary",
    "save_every": "checkpoint_every",
    "eval_every": "evaluate_every",
}
"What other tools call our settings, for a better guess than spelling gives."

AnySettings = TypeVar("AnySettings", bound=Settings)
Locate = Callable[[str], str]


def nowhere(key: str) -> str:
    """The locator for tables that come from no file."""
    return ""


def read_settings(
    cls: type[AnySettings], table: Mapping[str, Any], *, key: str = "", locate: Locate = nowhere
) -> AnySettings:
    """`table` as `cls`; `key` is its dotted place in the recipe, `locate` gives file and line."""
    values = dict(table)
    for name, field in cls.model_fields.items():
        if name not in values or isinstance(values[name], Settings):
            continue
        inner, named = _join(key, name), catalog_field(field)
        if named is not None:
            default = field.default if isinstance(field.default, Settings) else None
            values[name] = _read_part(
                named, values[name], default=default, key=inner, locate=locate
            )
        elif (section := _section(field)) is not None:
            values[name] = _read_section(section, values[name], key=inner, locate=locate)
    try:
        return cls.model_validate(values)
    except ValidationError as problem:
        raise _explain(problem, cls, key=key, locate=locate) from None


def catalog_field(field: FieldInfo) -> CatalogField | None:
    """The catalogue a field chooses from, where it names a part."""
    return next((note for note in field.metadata if isinstance(note, CatalogField)), None)


def table_of(settings: Settings) -> dict[str, Any]:
    """The inverse of `read_settings`: every value written out, parts with the name they go by."""
    table: dict[str, Any] = {}
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        named = catalog_field(field)
        if named is not None and value is not None:
            table[name] = {named.selector: name_of(value, named.catalog), **table_of(value)}
        elif isinstance(value, Settings):
            table[name] = table_of(value)
        elif value is not None:  # TOML has no null: an absent key means the default, None
            table[name] = list(value) if isinstance(value, tuple) else value
    return table


def settings_class(catalog: Catalog, name: str) -> type[Settings]:
    """The class a name stands for, in a catalogue of settings."""
    part = catalog.get(name).part
    if not (isinstance(part, type) and issubclass(part, Settings)):
        raise TypeError(f"{catalog.sort} {name!r} is not a settings class")
    return part


def name_of(settings: Settings, catalog: Catalog) -> str:
    """The name under which a catalogue holds these settings' class."""
    for entry in catalog:
        if entry.part is type(settings):
            return entry.name
    raise UserError(f"{type(settings).__name__} is not in the {catalog.sort} catalogue")


def dotted_keys(cls: type[Settings], key: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key a table of `cls` may hold, nested ones dotted; a named part stands as one key."""
    for name, field in cls.model_fields.items():
        dotted = _join(key, name)
        yield dotted, field
        section = _section(field)
        if section is not None:
            yield from dotted_keys(section, dotted)


def _section(field: FieldInfo) -> type[Settings] | None:
    """The settings class of a field that is a table of its own."""
    inner = field.annotation
    if catalog_field(field) is None and isinstance(inner, type) and issubclass(inner, Settings):
        return inner
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
    named: CatalogField, value: Any, *, default: Settings | None, key: str, locate: Locate
) -> Settings:
    """A part from its name or table; a table without a name means the default part."""
    table = {named.selector: value} if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        raise UserError(
            f"{key} takes a name or a table with {named.selector} = …, not {value!r}",
            topic="recipe",
            where=locate(key),
        )
    rest = dict(table)
    name = rest.pop(named.selector, None)
    if name is None and default is not None:
        name = name_of(default, named.catalog)
    if name is None:
        raise UserError(
            f"{key} needs {named.selector} = …; known: {', '.join(named.catalog.names())}",
            topic="recipe",
            where=locate(key),
        )
    if name not in named.catalog.names():
        raise UnknownPartError(
            f"{key}.{named.selector}: unknown {named.catalog.sort} {name!r}"
            f"{did_you_mean(str(name), named.catalog.names())}",
            topic="recipe",
            where=locate(_join(key, named.selector)) or locate(key),
        )
    part = settings_class(named.catalog, name)
    for given in rest:
        owners = () if given in part.model_fields else _owners(given, named.catalog)
        if owners:
            raise UserError(
                f"{_join(key, given)} belongs to {named.selector} = {' or '.join(owners)}, and "
                f"this is {name!r}",
                topic="recipe",
                where=locate(_join(key, given)),
                hint="Leave it out, or choose another.",
            )
    return read_settings(part, rest, key=key, locate=locate)


def _owners(setting: str, catalog: Catalog) -> tuple[str, ...]:
    """The parts of a catalogue that have a setting of this name, as a recipe writes them."""
    return tuple(
        repr(entry.name)
        for entry in catalog
        if setting in settings_class(catalog, entry.name).model_fields
    )


def _explain(
    problem: ValidationError, cls: type[Settings], *, key: str, locate: Locate
) -> UserError:
    """The first complaint, in one sentence; several at once would bury the way out."""
    error = problem.errors()[0]
    path = [str(step) for step in error["loc"]]
    dotted = _join(key, ".".join(path))
    where = locate(dotted)
    if error["type"] == "extra_forbidden":
        siblings = (known for known, _ in dotted_keys(cls, key))
        parent = dotted.rpartition(".")[0]
        near = [known for known in siblings if known.rpartition(".")[0] == parent]
        ours = _join(parent, SYNONYMS.get(path[-1], path[-1]))
        guess = did_you_mean(ours, near)
        return UserError(f"unknown setting {dotted}{guess}", topic="recipe", where=where)
    if error["type"] == "missing":
        described = dict(dotted_keys(cls, key)).get(dotted)
        meaning = described.description if described is not None else None
        hint = f"Give it: {' '.join(meaning.split())}" if meaning else "Give it."
        return UserError(f"{dotted} is missing", topic="recipe", where=where, hint=hint)
    message = _allowed(error)
    if error["type"] == "value_error":
        given = f"{dotted}: {message}" if path else f"{key}: {message}" if key else message
        return UserError(given, topic="recipe", where=where)
    return UserError(
        f"{dotted} = {error['input']!r} is not allowed: give {message}", topic="recipe", where=where
    )


def _allowed(error: ErrorDetails) -> str:
    """pydantic's complaint as something to give: `a number greater than 0`."""
    sort = error["type"]
    words = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if sort == "too_short":
        return "a list that is not empty"
    if sort == "string_too_short":
        return "a text that is not empty"
    if sort.endswith("_parsing"):
        return words.partition(", unable")[0].replace("a valid", "a").replace("a int", "an int")
    if sort.startswith(("greater_than", "less_than")):
        return f"a number {words}"
    return words.replace("String should match pattern", "a text of the form")


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key and name else key or name
