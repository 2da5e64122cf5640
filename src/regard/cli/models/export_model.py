"""`regard export`: write a model in the format of Hugging Face transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import AsJson, Base, UserFiles, console, print_json


def export_model(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder or model folder.")],
    out: Annotated[Path, typer.Option(help="New folder, for transformers to load.")],
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge a LoRA adapter into its base weights.")
    ] = False,
    base: Base = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Export a model for transformers, if it has the architecture."""
    from regard import api

    exported = api.export_model(run, out, merge=merge, base=base, user_files=user_files or ())
    if as_json:
        print_json(exported.as_dict())
        return
    for line in exported.lines():
        console().print(line, markup=False, soft_wrap=True)
    console().print(str(exported.folder), markup=False, soft_wrap=True, style="bold")
