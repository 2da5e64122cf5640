"""Write docs/settings.md and docs/catalogue.md from the code: `make docs`; a test keeps them so.

Settings come from the settings classes, the catalogue from what each part declares and from the
text at the top of its file.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from regard.api import catalogs
from regard.cli.catalog.properties import broken_reason, other_properties, main_heading, main_property
from regard.core.catalog import Catalog, Entry
from regard.core.settings import Settings, catalog_field, dotted_keys, settings_class
from regard.runs.recipe import Recipe

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src"
OPENING = """# Every setting of a recipe

Made from the code by `make docs`. A key with parts takes a name (`"dot"`) or a table
(`{ kind = "dot" }`); the tables below list what each part adds.
"""

CATALOGUE_OPENING = """# Every named part

Made from the code by `make docs`; `regard ls` shows the same, with parts of your own too
(`--with my_kind.py`).
"""


def pages() -> dict[Path, str]:
    """What each generated page holds."""
    return {DOCS / "settings.md": settings_page(), DOCS / "catalogue.md": catalogue_page()}


def catalogue_page() -> str:
    return CATALOGUE_OPENING + "".join(_sort(catalog) for catalog in catalogs())


def _sort(catalog: Catalog) -> str:
    heading = main_heading(catalog.name)
    rows = [f"\n## {catalog.name}\n", f"| name | what it is | {heading} |", "|---|---|---|"]
    rows += [
        f"| [{entry.name}](#{catalog.name}-{entry.name}) | {_shown(entry.summary)} "
        f"| {_shown(main_property(entry))} |"
        for entry in catalog
    ]
    return "\n".join(rows) + "\n" + "".join(_part(entry) for entry in catalog)


def _part(entry: Entry) -> str:
    """Heading, one line, properties, the equation, and where to read it."""
    # Without the line: it would move with every edit above it, and the page with it.
    file = entry.source.rpartition(":")[0]
    lines = [f"\n### {entry.catalog}: {entry.name}\n", f"{_shown(entry.summary)}\n"]
    if why := broken_reason(entry):
        lines.append(f"**{why[0].upper()}{why[1:]}.**\n")
    if more := other_properties(entry):
        lines.append(f"{more}\n")
    if equation := _equation(SOURCE / file):
        lines.append(f"```\n{equation}\n```\n")
    lines.append(f"[{file}](../src/{file})\n")
    return "\n".join(lines)


def _equation(file: Path) -> str:
    """The indented block of the text at the top of a file."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    blocks = [block for block in text.split("\n\n") if block.startswith("    ")]
    return textwrap.dedent(blocks[0]).rstrip() if blocks else ""


def _shown(words: str) -> str:
    """Words in Markdown: `<unk>` is no tag, `|` ends no cell."""
    return words.replace("<", "&lt;").replace("|", "\\|")


def settings_page() -> str:
    lines = [OPENING, "| key | default | what it is |", "|---|---|---|"]
    catalogs: dict[str, Catalog] = {}
    for key, field in dotted_keys(Recipe):
        named = catalog_field(field)
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
            named = catalog_field(field)
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
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
