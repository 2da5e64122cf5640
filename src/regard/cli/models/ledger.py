"""`regard ledger`: what a run trained, tensor by tensor, and the formula that says how much."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import AsJson, Base, OwnFiles, console, print_json


def ledger(
    run: Annotated[Path, typer.Argument(help="A run folder, or an imported model.")],
    base: Base = None,
    own_files: OwnFiles = None,
    as_json: AsJson = False,
) -> None:
    """List every trained tensor with its size, their share of the model, and the closed formula.

    Formula and tensors are counted apart and have to agree."""
    from rich.padding import Padding
    from rich.table import Table

    from regard import api

    kept = api.ledger(run, base=base, own_files=own_files or ())
    if as_json:
        print_json(kept.as_dict())
        return
    tensors = Table(box=None, padding=(0, 2, 0, 0), show_footer=True)
    tensors.add_column("tensor", footer=f"{len(kept.rows):,} tensors")
    tensors.add_column("shape", justify="right")
    tensors.add_column("parameters", justify="right", footer=f"{kept.total:,}")
    for row in kept.rows:
        tensors.add_row(row.name, " × ".join(map(str, row.shape)), f"{row.count:,}")
    formulas = Table(box=None, padding=(0, 2, 0, 0), show_footer=True)
    formulas.add_column("by formula", footer="all")
    formulas.add_column("parameters", justify="right", footer=f"{kept.total:,}")
    formulas.add_column("formula")
    for term in kept.terms:
        formulas.add_row(term.name, f"{term.value:,}", term.formula)
    for table in (tensors, formulas):
        console().print(Padding(table, (0, 0, 1, 2)))
    verb = "would train" if kept.is_projected else "trained"
    foretold = "imported, and nothing of it trained yet: " if kept.is_projected else ""
    console().print(
        f"  {foretold}adapt.kind = {kept.adapter!r} {verb} {kept.total:,} of {kept.of:,} "
        f"parameters ({kept.fraction:.3%})",
        markup=False,
    )
