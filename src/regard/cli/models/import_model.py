"""`regard import`: convert a Hugging Face, GGUF or packaged checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import AsJson, console, print_json


def import_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Hugging Face folder (safetensors), .gguf file, or pip:NAME of a package.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="New model folder.")],
    as_json: AsJson = False,
) -> None:
    """Import a Hugging Face, GGUF or pip-packaged model.

    Nothing is downloaded, and no code of the checkpoint is executed."""
    from regard import api

    imported = api.import_model(source, out)
    if as_json:
        print_json(imported.as_dict())
        return
    for line in imported.lines():
        console().print(line, markup=False, soft_wrap=True)
    console().print(str(imported.folder), markup=False, soft_wrap=True, style="bold")
