"""`regard import`: a checkpoint of another tool becomes a model to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import AsJson, console, print_json


def import_model(
    source: Annotated[
        str,
        typer.Argument(
            help="A Hugging Face folder (safetensors), a .gguf file, or pip:NAME of a package."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The new folder that the model goes to.")],
    as_json: AsJson = False,
) -> None:
    """Make a model folder from a Hugging Face folder, a GGUF file or an installed package.

    Nothing is fetched from the network, and no code of a checkpoint is run."""
    from regard import api

    imported = api.import_model(source, out)
    if as_json:
        print_json(imported.as_dict())
        return
    for line in imported.lines():
        console().print(line, markup=False, soft_wrap=True)
    console().print(str(imported.folder), markup=False, soft_wrap=True, style="bold")
