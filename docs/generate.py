"""Write docs/settings.md from the settings themselves: `make docs`; a test keeps it current."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from regard.catalog import Catalog
from regard.recipe import Recipe
from regard.settings import Settings, dotted_keys, named_part, settings_class

PAGE = Path(__file__).parent / "settings.md"
OPENING = """# Every setting of a recipe

Made from the code by `make docs`. A key with parts takes a name (`"dot"`) or a table
(`{ kind = "dot" }`); the tables below list what each part adds.
"""


def page() -> str:
    lines = [OPENING, "| key | default | what it is |", "|---|---|---|"]
    catalogs: dict[str, Catalog] = {}
    for key, field in dotted_keys(Recipe):
        named = named_part(field)
        if named is not None:
            catalogs[key] = named.catalog
            names = ", ".join(f"`{name}`" for name in named.catalog.names())
            lines.append(f"| `{key}` | | {_described(field)} One of {names}. |")
        else:
            lines.append(_row(key, field))
    for key, catalog in catalogs.items():
        lines += _parts(key, catalog)
    return "\n".join(lines) + "\n"


def _parts(key: str, catalog: Catalog) -> Iterator[str]:
    for entry in catalog:
        part = settings_class(catalog, entry.name)
        yield f"\n## `{key}`: {entry.name}\n\n{entry.summary}\n"
        nested: dict[str, Catalog] = {}
        rows = []
        for name, field in part.model_fields.items():
            named = named_part(field)
            if named is not None:
                nested[f"{key}.{name}"] = named.catalog
                names = ", ".join(f"`{one}`" for one in named.catalog.names())
                rows.append(f"| `{key}.{name}` | | {_described(field)} One of {names}. |")
            else:
                rows.append(_row(f"{key}.{name}", field))
        if rows:
            yield "| key | default | what it is |\n|---|---|---|"
            yield from rows
        for inner, inner_catalog in nested.items():
            yield from _parts(inner, inner_catalog)


def _row(key: str, field: FieldInfo) -> str:
    return f"| `{key}` | {_default(field)} | {_described(field)} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    if field.default is None or isinstance(field.default, Settings):
        return ""
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    shown = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
    return f"`{shown}`"


def _described(field: FieldInfo) -> str:
    return " ".join((field.description or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
