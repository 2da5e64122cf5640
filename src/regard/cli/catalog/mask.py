"""`regard mask`: draw which query may attend to which key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import console
from regard.core.errors import UserError

DEFAULT_LENGTH = 9
MAX_LENGTH = 500
DEFAULT_NUMBERS = {"prefix": 5, "sliding-window": 4, "same-block": 4}
"Of names that are written without a number."
OPTIONS = {"prefix": "--prefix", "sliding-window": "--window", "same-block": "--block"}


def mask(
    name: Annotated[
        str, typer.Argument(help='A mask, or several: "causal & sliding-window:4 | prefix:5".')
    ],
    length: Annotated[
        int | None,
        typer.Option(
            help=f"Positions of the row; by default {DEFAULT_LENGTH}, or the number of labels."
        ),
    ] = None,
    prefix: Annotated[int | None, typer.Option(help="Length of the prefix; else 5.")] = None,
    window: Annotated[
        int | None,
        typer.Option(help="Size of the sliding window, the query's own position included; else 4."),
    ] = None,
    block: Annotated[
        int | None, typer.Option(help="Size of a block, for same-block; else 4.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="The row's tokens, separated by spaces.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Also draw it into this SVG file.")] = None,
) -> None:
    """Draw a mask: which query may attend to which key. `regard ls mask` has the names.

    Masks compose with & (both), | (either), ~ (not) and brackets. Their numbers follow a colon:
    sliding-window:4, prefix:5, same-block:4, padding:2 (the last 2 positions), same-document:4,5
    and same-group:4,5 (consecutive lengths), cross:2 (a source whose last 2 positions are padding).
    """
    from regard.attention.masks.drawing import LEGEND, draw_svg, draw_text
    from regard.attention.masks.expression import names_without_numbers, parse_mask

    tokens = None if labels is None else labels.split()
    row_length = _row_length(length, tokens)
    options = {"prefix": prefix, "sliding-window": window, "same-block": block}
    numbers = {what: number for what, number in options.items() if number is not None}
    _check_used(numbers, names_without_numbers(name))
    parsed = parse_mask(
        name,
        row_length,
        numbers={what: (number,) for what, number in (DEFAULT_NUMBERS | numbers).items()},
    )
    drawing = draw_text(parsed, row_length, labels=tokens)
    out = console()
    out.print(f"{name} · {LEGEND}", markup=False, soft_wrap=True, style="bold")
    out.print(drawing, markup=False, soft_wrap=True)
    if svg is not None:
        _write(svg, draw_svg(parsed, row_length, labels=tokens, title=name))
        out.print(str(svg), markup=False, soft_wrap=True)


def _row_length(length: int | None, tokens: list[str] | None) -> int:
    default = DEFAULT_LENGTH if tokens is None else len(tokens)
    row_length = default if length is None else length
    if tokens is not None and len(tokens) != row_length:
        raise UserError(
            f"--labels has {len(tokens)} tokens and --length says {row_length}",
            topic="mask",
            hint="Give one label for each position, or leave --length out.",
        )
    if not 1 <= row_length <= MAX_LENGTH:
        raise UserError(
            f"a row of {row_length} positions",
            topic="mask",
            hint=f"Choose a length from 1 to {MAX_LENGTH}.",
        )
    return row_length


def _check_used(numbers: dict[str, int], names: set[str]) -> None:
    """Refuse an option that would change nothing: no name takes its number."""
    for what in numbers:
        if what not in names:
            raise UserError(
                f"{OPTIONS[what]} is given, and {what} does not stand there without a number",
                topic="mask",
                hint=f"Write {what}, or leave {OPTIONS[what]} out.",
            )


def _write(target: Path, svg: str) -> None:
    from regard.core.files import write_text

    if target.is_dir():
        raise UserError("is a folder", topic="mask", where=str(target), hint="Name a file.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, svg)
    except OSError as problem:
        raise UserError(
            f"cannot be written ({problem.strerror or problem})",
            topic="mask",
            where=str(target),
            hint="Name a file in a folder that you may write to.",
        ) from None
