"""`regard import` and `regard export`: models of other tools, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import AsJson, Base, UserFiles, console, print_json

if TYPE_CHECKING:
    from regard.interop.export_model import ExportReport
    from regard.interop.import_model import ImportReport


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
    _print(imported, as_json=as_json)


def export_model(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", autocompletion=complete_run, help="Run folder or model folder."
        ),
    ],
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
    _print(exported, as_json=as_json)


def _print(report: ImportReport | ExportReport, *, as_json: bool) -> None:
    """What was converted, and the new folder."""
    if as_json:
        print_json(report.as_dict())
        return
    for line in report.lines():
        console().print(line, markup=False, soft_wrap=True)
    console().print(str(report.folder), markup=False, soft_wrap=True, style="bold")
