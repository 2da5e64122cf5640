"""Generate docs/settings.md and docs/catalogue.md from the code (`make docs`).

Settings come from the settings classes and their docstrings, the catalogue from declared properties
and module docstrings. `tests/test_docs.py` checks that both pages are up to date.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from regard.api import catalogs
from regard.cli.catalog.properties import (
    broken_reason,
    main_heading,
    main_property,
    other_properties,
)
from regard.core.catalog import Catalog, Entry
from regard.core.settings import Setting, Settings, all_settings, catalog_field, settings_class
from regard.runs.recipe import Recipe
from regard.studies.study import Study

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src"
SETTINGS_INTRODUCTION = """# Settings

Every key of a [recipe](#recipe) and of a [study](#study), generated from the code by `make docs`.
`regard schema recipe` and `regard schema study` print the same for editors.

## Recipe

A key with a catalogue takes a name (`"dot"`) or a table (`{ kind = "dot" }`); the sections below
list the settings of each entry. `--set train.lr=1e-3` overrides a key.
"""

STUDY_INTRODUCTION = """
## Study

What `regard compare` trains: variants of one recipe, with every seed, judged by a score that is
named before. `regard sweep` is the same for a study with a `grid` or `random`.

```toml
base = "mine.toml"
question = "Which learning rate and width does my task need?"
decides = "dev.accuracy"
seeds = [0, 1, 2]

[variants.as-proposed]

[grid]
"train.lr" = [5e-4, 2e-3]
"model.width" = [32, 64]
```

Dotted keys stand in quotes, so a key is a setting of the recipe. This grid adds four variants to
`as-proposed`, called by their values: `lr=0.0005,width=32` and so on. With

```toml
base = "mine.toml"
seeds = { plan = [3, 5, 8] }
random = { trials = 4, values = { "train.lr" = [5e-4, 1e-3, 2e-3], "model.dropout" = [0.0, 0.2] } }

[variants.as-proposed]
```

four of the six combinations become variants, drawn by `random.seed`. Each is trained with three
seeds, and with five and eight only while a comparison is undecided.
"""

TABLE_HEAD = "| key | default | what it is |\n|---|---|---|"

CATALOGUE_INTRODUCTION = """# Catalogue

Everything a recipe can name, and the metrics of its tasks, generated from the code by `make docs`;
`regard ls` shows the same, including custom kinds (`--with my_kind.py`).
"""


def pages() -> dict[Path, str]:
    """The text of each generated page."""
    return {DOCS / "settings.md": settings_page(), DOCS / "catalogue.md": catalogue_page()}


def catalogue_page() -> str:
    return CATALOGUE_INTRODUCTION + "".join(_catalog_section(catalog) for catalog in catalogs())


def _catalog_section(catalog: Catalog) -> str:
    heading = main_heading(catalog.name)
    rows = [f"\n## {catalog.name}\n", f"| name | what it is | {heading} |", "|---|---|---|"]
    rows += [
        f"| [{entry.name}](#{catalog.name}-{entry.name}) | {_escape(entry.summary)} "
        f"| {_escape(main_property(entry))} |"
        for entry in catalog
    ]
    return "\n".join(rows) + "\n" + "".join(_entry_section(entry) for entry in catalog)


def _entry_section(entry: Entry) -> str:
    """Heading, summary, properties, equation and source file."""
    # Without the line number, which would change with every edit above it.
    file = entry.source.rpartition(":")[0]
    lines = [f"\n### {entry.catalog}: {entry.name}\n", f"{_escape(entry.summary)}\n"]
    if why := broken_reason(entry):
        lines.append(f"**{why[0].upper()}{why[1:]}.**\n")
    if more := other_properties(entry):
        lines.append(f"{more}\n")
    if equation := _equation(SOURCE / file):
        lines.append(f"```\n{equation}\n```\n")
    lines.append(f"[{file}](../src/{file})\n")
    return "\n".join(lines)


def _equation(file: Path) -> str:
    """The first indented block of a module docstring."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    blocks = [block for block in text.split("\n\n") if block.startswith("    ")]
    return textwrap.dedent(blocks[0]).rstrip() if blocks else ""


def _escape(text: str) -> str:
    """Escape `<` and `|` for a Markdown table."""
    return text.replace("<", "&lt;").replace("|", "\\|")


def settings_page() -> str:
    lines = [SETTINGS_INTRODUCTION, TABLE_HEAD]
    catalogs: dict[str, Catalog] = {}
    for setting in all_settings(Recipe):
        lines.append(_row(setting))
        if choice := catalog_field(setting.field):
            catalogs[setting.key] = choice.catalog
    lines += _study_section()
    for key, catalog in catalogs.items():
        lines += _entry_settings(key, catalog)
    return "\n".join(lines) + "\n"


def _study_section() -> Iterator[str]:
    yield STUDY_INTRODUCTION
    yield TABLE_HEAD
    yield from map(_row, all_settings(Study))
    for name, field in Study.model_fields.items():
        for table in get_args(field.annotation):
            if isinstance(table, type) and issubclass(table, Settings):
                yield f"\n### `{name}` as a table\n\n{TABLE_HEAD}"
                yield from map(_row, all_settings(table, name))


def _entry_settings(key: str, catalog: Catalog) -> Iterator[str]:
    for entry in catalog:
        settings = settings_class(catalog, entry.name)
        yield f"\n## `{key}`: {entry.name}\n\n{entry.summary}\n"
        nested: dict[str, Catalog] = {}
        rows = []
        for setting in all_settings(settings, key):
            rows.append(_row(setting))
            if choice := catalog_field(setting.field):
                nested[setting.key] = choice.catalog
        if rows:
            yield TABLE_HEAD
            yield from rows
        for inner, inner_catalog in nested.items():
            yield from _entry_settings(inner, inner_catalog)


def _row(setting: Setting) -> str:
    doc = setting.doc.replace("|", "\\|")
    if choice := catalog_field(setting.field):
        names = ", ".join(f"`{name}`" for name in choice.catalog.names())
        return f"| `{setting.key}` | | {doc} One of {names}. |"
    if choices := _choices(setting.field, doc):
        doc += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    default = "the file's name" if setting.key == "name" else _default(setting.field)
    return f"| `{setting.key}` | {default} | {doc} |"


def _choices(field: FieldInfo, doc: str) -> Sequence[str]:
    """The strings that a field allows, unless its documentation names them all."""
    if get_origin(field.annotation) is not Literal:
        return ()
    choices = [choice for choice in get_args(field.annotation) if isinstance(choice, str)]
    return choices if any(choice not in re.findall(r"[\w-]+", doc) for choice in choices) else ()


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory or field.default is None or isinstance(field.default, Settings):
        return ""
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    text = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
    return f"`{text}`"


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
