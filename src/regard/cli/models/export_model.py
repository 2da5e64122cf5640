"""`regard export`: a model as a folder that transformers loads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import AsJson, Base, OwnFiles, console, print_json


def export_model(
    run: Annotated[Path, typer.Argument(help="A run folder, or a model folder.")],
    out: Annotated[Path, typer.Option(help="The new folder that transformers will load.")],
    merge: Annotated[
        bool, typer.Option("--merge", help="Fold a LoRA adapter into the weights of its base.")
    ] = False,
    base: Base = None,
    own_files: OwnFiles = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as a folder that transformers loads, where it has the architecture."""
    from regard import api

    exported = api.export_model(run, out, merge=merge, base=base, own_files=own_files or ())
    if as_json:
        print_json(exported.as_dict())
        return
    for line in exported.lines():
        console().print(line, markup=False, soft_wrap=True)
    console().print(str(exported.folder), markup=False, soft_wrap=True, style="bold")
