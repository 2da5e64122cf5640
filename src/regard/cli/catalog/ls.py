"""`regard ls`: the named parts a recipe can use, and where to read each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, OwnFiles, console, print_json

if TYPE_CHECKING:
    from rich.text import Text

    from regard.core.catalog import Catalog, Entry


def ls(
    sort: Annotated[
        str | None, typer.Argument(help="attention, mask, position, family, …; none: all.")
    ] = None,
    own_files: OwnFiles = None,
    as_json: AsJson = False,
) -> None:
    """List the parts that recipes can name: what each is, what it costs, where it stands."""
    from regard import api
    from regard.core.errors import UserError, did_you_mean

    api.load_parts(own_files or ())
    known = {catalog.name: catalog for catalog in api.catalogs()}
    if sort is not None and sort not in known:
        raise UserError(f"ls: unknown sort {sort!r}{did_you_mean(sort, known)}")
    chosen = [known[name] for name in ([sort] if sort else known)]
    if as_json:
        print_json([_as_dict(entry) for catalog in chosen for entry in catalog])
    elif sort is None:
        _print_overview(chosen)
    else:
        _print_sort(known[sort])


def _as_dict(entry: Entry) -> dict[str, object]:
    from dataclasses import asdict

    from regard.tasks.advice import advise

    advice = {"advice": asdict(advise(entry.name))} if entry.catalog == "task" else {}
    return {
        "sort": entry.catalog,
        "name": entry.name,
        "summary": entry.summary,
        "properties": {k: v for k, v in entry.properties.items() if not callable(v)},
        "source": entry.source,
        **advice,
    }


def _print_overview(catalogs: list[Catalog]) -> None:
    """Every part on a line."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("sort", "name", "what it is"):
        table.add_column(heading, no_wrap=heading != "what it is")
    for catalog in catalogs:
        shown = catalog.name
        for entry in catalog:
            table.add_row(shown, _name(entry), _plain(entry.summary))
            shown = ""
    console().print(table)
    console().print("\n`regard ls attention` tells cost, properties and source.", style="dim")


def _print_sort(catalog: Catalog) -> None:
    """Name and main property; below, over the whole width, what it is and where it stands."""
    from rich.padding import Padding
    from rich.text import Text

    from regard.cli.catalog.properties import main_heading, main_property

    room = 2 + max(len(name) for name in ["name", *catalog.names()])
    console().print(Text("name".ljust(room) + main_heading(catalog.name), style="dim"))
    for entry in catalog:
        spaces = " " * (room - len(entry.name))
        console().print(Text.assemble(_name(entry), spaces, main_property(entry)))
        console().print(Padding(_about(entry), (0, 0, 1, 2)))
    if catalog.name == "task":
        from regard.tasks.advice import ADAPT_OR_PRETRAIN

        console().print(Text(ADAPT_OR_PRETRAIN, style="dim"))


def _about(entry: Entry) -> Text:
    from rich.text import Text

    from regard.cli.catalog.properties import broken, further, shown_source

    lines = [Text(entry.summary)]
    if why := broken(entry):
        lines.append(Text(why, style="red"))
    if more := further(entry):
        lines.append(Text(more))
    lines.append(Text(shown_source(entry), style="dim"))
    return Text("\n", overflow="fold").join(lines)


def _name(entry: Entry) -> Text:
    from rich.text import Text

    return Text(entry.name, style="red" if entry.properties.get("broken") else "bold")


def _plain(words: str) -> Text:
    from rich.text import Text

    return Text(words)
