"""`regard mask`: see which place may look at which."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import console
from regard.core.errors import UserError

LENGTH = 9
LONGEST = 500
USUAL = {"prefix": 5, "lookback": 3, "same-block": 4}
"Numbers for names that come without one."
OPTIONS = {"prefix": "--prefix", "lookback": "--lookback", "same-block": "--block"}


def mask(
    name: Annotated[
        str, typer.Argument(help='A mask, or several: "causal & lookback:3 | prefix:5".')
    ],
    length: Annotated[
        int | None, typer.Option(help=f"Places of the row; by default {LENGTH}, or one a label.")
    ] = None,
    prefix: Annotated[int | None, typer.Option(help="Places of the first part; else 5.")] = None,
    lookback: Annotated[
        int | None, typer.Option(help="Places before the query that it sees; else 3.")
    ] = None,
    block: Annotated[
        int | None, typer.Option(help="Places of a block, for same-block; else 4.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="The row's tokens, with spaces between them.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Also draw it into this SVG file.")] = None,
) -> None:
    """Draw a mask: which query may attend to which key. `regard ls mask` has the names.

    Masks compose with & (both), | (either), ~ (not) and brackets. Their numbers follow a colon:
    lookback:3, prefix:5, same-block:4, padding:2 (the last 2 places), same-document:4,5 and
    same-group:4,5 (lengths, one after the other), cross:2 (a source whose last 2 are padding).
    """
    from regard.attention.masks.drawing import LEGEND, draw_svg, draw_text
    from regard.attention.masks.expression import names_without_numbers, read_mask

    tokens = None if labels is None else labels.split()
    places = _places(length, tokens)
    given = {"prefix": prefix, "lookback": lookback, "same-block": block}
    numbers = {what: number for what, number in given.items() if number is not None}
    _check_used(numbers, names_without_numbers(name))
    read = read_mask(
        name, places, numbers={what: (number,) for what, number in (USUAL | numbers).items()}
    )
    drawing = draw_text(read, places, labels=tokens)
    out = console()
    out.print(f"{name} · {LEGEND}", markup=False, soft_wrap=True, style="bold")
    out.print(drawing, markup=False, soft_wrap=True)
    if svg is not None:
        _write(svg, draw_svg(read, places, labels=tokens, title=name))
        out.print(str(svg), markup=False, soft_wrap=True)


def _places(length: int | None, tokens: list[str] | None) -> int:
    places = length if length is not None else LENGTH if tokens is None else len(tokens)
    if tokens is not None and len(tokens) != places:
        raise UserError(
            f"--labels has {len(tokens)} tokens and --length says {places}",
            topic="mask",
            hint="Give one label for each place, or leave --length out.",
        )
    if not 1 <= places <= LONGEST:
        raise UserError(
            f"a row of {places} places", topic="mask", hint=f"Choose a length from 1 to {LONGEST}."
        )
    return places


def _check_used(numbers: dict[str, int], bare: set[str]) -> None:
    """An option that changes nothing would fool the person who gave it."""
    for what in numbers:
        if what not in bare:
            raise UserError(
                f"{OPTIONS[what]} is given, and {what} does not stand there without a number",
                topic="mask",
                hint=f"Write {what}, or leave {OPTIONS[what]} out.",
            )


def _write(target: Path, picture: str) -> None:
    from regard.core.files import write_text

    if target.is_dir():
        raise UserError("is a folder", topic="mask", where=str(target), hint="Name a file.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, picture)
    except OSError as problem:
        raise UserError(
            f"cannot be written ({problem.strerror or problem})",
            topic="mask",
            where=str(target),
            hint="Name a file in a folder that you may write to.",
        ) from None
