"""`regard inspect`: see what a trained model attends to in a text."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import AsJson, Base, OwnFiles, console
from regard.core.errors import UserError


def inspect(
    run: Annotated[Path, typer.Argument(help="A run folder, a checkpoint or a final folder.")],
    text: Annotated[str, typer.Option(help="What the model is to read.")],
    target: Annotated[
        str | None,
        typer.Option(help="What it is to tell of the text, for models with a source."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="The layer to show large, from 0; else the most focused.")
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="The head to show large, from 0; else the most focused.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the page; else into RUN/inspect.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Also draw it into this PNG file.")] = None,
    base: Base = None,
    own_files: OwnFiles = None,
    as_json: AsJson = False,
) -> None:
    """Show what a model attends to in a text, in every layer and head, and each token's loss.

    A model with a source reads --text as its source, and tells --target or what it writes itself.
    With --json the values are printed, and a page is written only where --out names one.
    """
    from regard import api
    from regard.reports.charts.theme import LIGHT
    from regard.reports.inspection_page import inspection_html, inspection_picture, parts_of

    inspected = api.inspect(
        api.load(run, base=base, own_files=own_files or ()), text, target=target
    )
    parts = parts_of(inspected, layer=layer, head=head)
    name = run.resolve().name
    page = out or (None if as_json else _usual_place(run, text, target))
    if page is not None:
        _write(page, inspection_html(inspected, parts, run=name).encode())
    if png is not None:
        picture = inspection_picture(inspected, parts, run=name, theme=LIGHT)
        _write(png, picture.png(theme=LIGHT))
    if as_json:
        # On one line: with one number a line nobody could read it, and files would be large.
        print(json.dumps({"run": str(run), **inspected.as_dict()}, ensure_ascii=False))
        return
    say = console()
    for reason in inspected.invalid:
        say.print(f"  INVALID  {reason}", markup=False, soft_wrap=True, style="bold red")
    for remark in inspected.remarks:
        say.print(f"  {remark}", markup=False, style="yellow")
    loss = inspected.mean_loss
    told = "" if loss is None else f" · mean loss {loss:.2f} nats over {len(inspected.losses)}"
    say.print(f"  {len(inspected.row.ids)} tokens{told}", markup=False)
    for part in parts:
        say.print(f"  {part.title}: {part.name}, {part.why}", markup=False)
    for file in (page, png):
        if file is not None:
            say.print(str(file), markup=False, soft_wrap=True)


def _usual_place(run: Path, text: str, target: str | None) -> Path:
    """A name that tells the text; beside the run's own files, never among a sealed model's."""
    words = "".join(one if one.isalnum() else " " for one in text.lower()).split()
    told = "-".join(words[:6])[:40].strip("-") or "text"
    digest = hashlib.sha256(f"{text}\n{target}".encode()).hexdigest()[:6]
    home = run / "inspect" if (run / "recipe.toml").is_file() else Path("inspect")
    return home / f"{told}-{digest}.html"


def _write(target: Path, content: bytes) -> None:
    if target.is_dir():
        raise UserError("is a folder", topic="inspect", where=str(target), hint="Name a file.")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
