"""`regard ls`: the named parts a recipe can use, and where to read each."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.console import AsJson, console, print_json


def ls(
    sort: Annotated[
        str | None, typer.Argument(help="attention, position, tokenizer, family, …; none: all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the parts that recipes can name: what each is, what it costs, where it stands."""
    from regard.api import catalogs
    from regard.errors import UserError, did_you_mean

    known = {catalog.sort: catalog for catalog in catalogs()}
    if sort is not None and sort not in known:
        raise UserError(f"ls: unknown sort {sort!r}{did_you_mean(sort, known)}")
    entries = [entry for name in ([sort] if sort else known) for entry in known[name]]
    if as_json:
        print_json(
            [
                {
                    "sort": entry.catalog,
                    "name": entry.name,
                    "summary": entry.summary,
                    "properties": {k: v for k, v in entry.properties.items() if not callable(v)},
                    "source": entry.source,
                }
                for entry in entries
            ]
        )
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("sort", "name", "what it is", "source"):
        table.add_column(heading, no_wrap=heading == "name")
    before = None
    for entry in entries:
        shown = entry.catalog if entry.catalog != before else ""
        table.add_row(shown, entry.name, entry.summary, entry.source)
        before = entry.catalog
    console().print(table)
