"""`regard ls`: the catalogues of parts that recipes can name, with properties and source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import complete_catalog
from regard.cli.console import AsJson, UserFiles, console, print_json

PLURALS = {"corpora": "corpus", "families": "family"}
MIN_TABLE_WIDTH = 60
"In a narrower terminal summaries stand below the names."

if TYPE_CHECKING:
    from rich.text import Text

    from regard.core.catalog import Catalog, Entry


def ls(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="CATALOG",
            autocompletion=complete_catalog,
            help="attention, mask, position, family, …; default: all.",
        ),
    ] = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """List attention kinds, families, tasks and other parts.

    These are the names that recipes use, with cost, properties and source."""
    from regard import api
    from regard.core.errors import UserError, did_you_mean

    api.load_parts(user_files or ())
    catalogs = {catalog.name: catalog for catalog in api.catalogs()}
    if name is not None and name not in catalogs:
        name = PLURALS.get(name) or name.removesuffix("s")
    if name is not None and name not in catalogs:
        raise UserError(f"ls: unknown catalog {name!r}{did_you_mean(name, catalogs)}")
    selected = [catalogs[name]] if name else list(catalogs.values())
    if as_json:
        print_json([_as_dict(entry) for catalog in selected for entry in catalog])
    elif name is None:
        _print_overview(selected)
    else:
        _print_catalog(catalogs[name])


def _as_dict(entry: Entry) -> dict[str, object]:
    from dataclasses import asdict

    from regard.tasks.advice import advise

    advice = {"advice": asdict(advise(entry.name))} if entry.catalog == "task" else {}
    return {
        "catalog": entry.catalog,
        "name": entry.name,
        "summary": entry.summary,
        "properties": {k: v for k, v in entry.properties.items() if not callable(v)},
        "source": entry.source,
        **advice,
    }


def _print_overview(catalogs: list[Catalog]) -> None:
    """One line per part."""
    from rich.text import Text

    from regard.cli.tables import plain_table, print_indented

    if console().width < MIN_TABLE_WIDTH:
        for catalog in catalogs:
            console().print(Text(catalog.name, style="dim"))
            for entry in catalog:
                print_indented(Text("\n").join([_name(entry), Text(f"  {entry.summary}")]))
        return
    table = plain_table()
    for heading in ("catalog", "name", "summary"):
        table.add_column(heading, no_wrap=heading != "summary")
    for catalog in catalogs:
        label = catalog.name
        for entry in catalog:
            table.add_row(label, _name(entry), Text(entry.summary))
            label = ""
    console().print(table)
    console().print("\n`regard ls attention` adds cost, properties and source.", style="dim")


def _print_catalog(catalog: Catalog) -> None:
    """Name and main property of each part; below, its summary, other properties and source."""
    from rich.text import Text

    from regard.cli.catalog.properties import main_heading, main_property
    from regard.cli.tables import print_indented

    width = 2 + max(len(name) for name in ["name", *catalog.names()])
    console().print(Text("name".ljust(width) + main_heading(catalog.name), style="dim"))
    for entry in catalog:
        spaces = " " * (width - len(entry.name))
        console().print(Text.assemble(_name(entry), spaces, main_property(entry)))
        print_indented(_details(entry), below=1)
    if catalog.name == "task":
        from regard.tasks.advice import ADAPT_OR_PRETRAIN

        console().print(Text(ADAPT_OR_PRETRAIN, style="dim"))


def _details(entry: Entry) -> Text:
    from rich.text import Text

    from regard.cli.catalog.properties import broken_reason, other_properties, source_location

    lines = [Text(entry.summary)]
    if reason := broken_reason(entry):
        lines.append(Text(reason, style="red"))
    if properties := other_properties(entry):
        lines.append(Text(properties))
    lines.append(Text(source_location(entry), style="dim"))
    return Text("\n", overflow="fold").join(lines)


def _name(entry: Entry) -> Text:
    from rich.text import Text

    return Text(entry.name, style="red" if entry.properties.get("broken") else "bold")
