"""`regard inspect`: attention maps and token losses of a model on a text."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import AsJson, Base, UserFiles, console


def inspect(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            autocompletion=complete_run,
            help="Run folder, checkpoint or model folder.",
        ),
    ],
    text: Annotated[str, typer.Option(help="Input text; the source of an encoder-decoder.")],
    target: Annotated[
        str | None,
        typer.Option(help="Target text of an encoder-decoder; default: generated."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="Layer to enlarge, from 0; default: the most focused.")
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="Head to enlarge, from 0; default: the most focused.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="HTML file; default: a new one in RUN/inspect.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Also draw it to this PNG file.")] = None,
    base: Base = None,
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Show attention weights and token losses on a text.

    With --json the values are printed, and the page is only written if --out is given.
    """
    from regard import api
    from regard.core.files import write_output
    from regard.reports.charts.theme import LIGHT
    from regard.reports.inspection_page import (
        attention_sections,
        inspection_html,
        inspection_picture,
    )

    inspection = api.inspect(
        api.load(run, base=base, user_files=user_files or ()), text, target=target
    )
    sections = attention_sections(inspection, layer=layer, head=head)
    name = run.resolve().name
    page = out or (None if as_json else _default_page(run, text, target))
    if page is not None:
        write_output(page, inspection_html(inspection, sections, run=name), topic="inspect")
    if png is not None:
        picture = inspection_picture(inspection, sections, run=name, theme=LIGHT)
        write_output(png, picture.png(theme=LIGHT), topic="inspect")
    if as_json:
        # Not indented: one weight per line would make large, unreadable files.
        print(json.dumps({"run": str(run), **inspection.as_dict()}, ensure_ascii=False))
        return
    out_console = console()
    for reason in inspection.invalid:
        out_console.print(f"  INVALID  {reason}", markup=False, soft_wrap=True, style="bold red")
    for remark in inspection.remarks:
        out_console.print(f"  {remark}", markup=False, style="yellow")
    loss, n = inspection.mean_loss, len(inspection.losses)
    loss_text = "" if loss is None else f" · mean loss {loss:.2f} nats over {n}"
    out_console.print(f"  {len(inspection.row.ids)} tokens{loss_text}", markup=False)
    for section in sections:
        out_console.print(f"  {section.title}: {section.name}, {section.reason}", markup=False)
    for file in (page, png):
        if file is not None:
            out_console.print(str(file), markup=False, soft_wrap=True)


def _default_page(run: Path, text: str, target: str | None) -> Path:
    """Named after the text; in the run folder, never in a model folder with a manifest."""
    words = "".join(one if one.isalnum() else " " for one in text.lower()).split()
    stem = "-".join(words[:6])[:40].strip("-") or "text"
    digest = hashlib.sha256(f"{text}\n{target}".encode()).hexdigest()[:6]
    folder = run / "inspect" if (run / "recipe.toml").is_file() else Path("inspect")
    return folder / f"{stem}-{digest}.html"
