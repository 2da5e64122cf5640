"""`regard ledger`: the trained parameters of a run, by tensor and by formula."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import AsJson, Base, UserFiles, console, print_json


def ledger(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", autocompletion=complete_run, help="Run folder, or imported model folder."
        ),
    ],
    base: Base = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """List the trained tensors and their closed-form count.

    Formula and tensors are counted independently and must agree."""
    from regard import api
    from regard.cli.tables import plain_table, print_indented

    entries = api.ledger(run, base=base, user_files=user_files or ())
    if as_json:
        print_json(entries.as_dict())
        return
    tensors = plain_table(show_footer=True)
    tensors.add_column("tensor", footer=f"{len(entries.rows):,} tensors")
    tensors.add_column("shape", justify="right")
    tensors.add_column("parameters", justify="right", footer=f"{entries.total:,}")
    for row in entries.rows:
        tensors.add_row(row.name, " × ".join(map(str, row.shape)), f"{row.count:,}")
    formulas = plain_table(show_footer=True)
    formulas.add_column("by formula", footer="total")
    formulas.add_column("parameters", justify="right", footer=f"{entries.total:,}")
    formulas.add_column("formula")
    for term in entries.terms:
        formulas.add_row(term.name, f"{term.value:,}", term.formula)
    for table in (tensors, formulas):
        print_indented(table, below=1)
    verb = "would train" if entries.is_projected else "trained"
    untrained = "imported, not trained yet: " if entries.is_projected else ""
    console().print(
        f"  {untrained}adapt.kind = {entries.adapter!r} {verb} {entries.total:,} of {entries.of:,} "
        f"parameters ({entries.fraction:.3%})",
        markup=False,
    )
