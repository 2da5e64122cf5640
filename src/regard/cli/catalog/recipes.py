"""`regard recipes`: what comes with regard, listed, or copied to be trained and edited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import console


def recipes(
    out: Annotated[
        Path | None, typer.Option(help="Copy all into this folder; what is there stays.")
    ] = None,
) -> None:
    """List the recipes and studies that come with regard, or copy them."""
    from regard.runs.proposals.builtin_recipes import builtin_recipes, copy_builtin_recipes

    if out is None:
        _print(builtin_recipes())
        return
    copied, kept = copy_builtin_recipes(out)
    stay = f"; {len(kept)} were there and stay" if kept else ""
    console().print(f"  {out}: {len(copied)} recipes and studies{stay}", markup=False)


def _print(found: dict[str, Path]) -> None:
    from rich.text import Text

    from regard.cli.tables import plain_table, print_indented
    from regard.runs.proposals.builtin_recipes import summary

    table = plain_table(show_header=False)
    table.add_column(no_wrap=True)
    for name, file in found.items():
        table.add_row(Text(name, style="bold"), Text(summary(file)))
    print_indented(table)
    console().print(
        "\n`regard recipes --out recipes` copies them to recipes/; those in full/ need files of "
        "your own.",
        style="dim",
    )
