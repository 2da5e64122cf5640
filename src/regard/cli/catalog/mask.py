"""`regard mask`: draw which queries may attend to which keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.attention.masks.drawing import DEFAULT_LENGTH, MAX_LENGTH
from regard.cli.completion import complete_mask
from regard.cli.console import console
from regard.core.errors import UserError

DEFAULT_NUMBERS = {"prefix": 5, "sliding-window": 4, "same-block": 4}
"For names without a number."
OPTIONS = {"prefix": "--prefix", "sliding-window": "--window", "same-block": "--block"}


def mask(
    name: Annotated[
        str,
        typer.Argument(
            metavar="MASK",
            autocompletion=complete_mask,
            help='Mask expression: "causal & sliding-window:4 | prefix:5".',
        ),
    ],
    length: Annotated[
        int | None,
        typer.Option(help=f"Sequence length; default: {DEFAULT_LENGTH}, or the number of labels."),
    ] = None,
    prefix: Annotated[int | None, typer.Option(help="Prefix length; default: 5.")] = None,
    window: Annotated[
        int | None,
        typer.Option(help="Sliding window size, including the query's own position; default: 4."),
    ] = None,
    block: Annotated[int | None, typer.Option(help="Block size of same-block; default: 4.")] = None,
    labels: Annotated[str | None, typer.Option(help="Token labels, separated by spaces.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Also draw it to this SVG file.")] = None,
) -> None:
    """Draw an attention mask: which queries may attend to which keys.

    `regard ls mask` lists the names. Masks compose with & (and), | (or), ~ (not) and parentheses.
    Numbers follow a colon: sliding-window:4, prefix:5, same-block:4, padding:2 (the last 2
    positions), same-document:4,5 and same-group:4,5 (consecutive lengths), cross:2 (memory whose
    last 2 positions are padding).
    """
    from regard.attention.masks.drawing import LEGEND, draw_svg, draw_text
    from regard.attention.masks.expression import names_without_numbers, parse_mask
    from regard.core.files import write_output

    tokens = None if labels is None else labels.split()
    row_length = _row_length(length, tokens)
    options = {"prefix": prefix, "sliding-window": window, "same-block": block}
    numbers = {key: number for key, number in options.items() if number is not None}
    _check_used(numbers, names_without_numbers(name))
    parsed = parse_mask(
        name,
        row_length,
        numbers={key: (number,) for key, number in (DEFAULT_NUMBERS | numbers).items()},
    )
    drawing = draw_text(parsed, row_length, labels=tokens)
    out = console()
    out.print(f"{name} · {LEGEND}", markup=False, soft_wrap=True, style="bold")
    out.print(drawing, markup=False, soft_wrap=True)
    if svg is not None:
        write_output(svg, draw_svg(parsed, row_length, labels=tokens, title=name), topic="mask")
        out.print(str(svg), markup=False, soft_wrap=True)


def _row_length(length: int | None, tokens: list[str] | None) -> int:
    default = DEFAULT_LENGTH if tokens is None else len(tokens)
    row_length = default if length is None else length
    if tokens is not None and len(tokens) != row_length:
        raise UserError(
            f"--labels has {len(tokens)} tokens and --length says {row_length}",
            topic="mask",
            hint="Give one label per position, or leave --length out.",
        )
    if not 1 <= row_length <= MAX_LENGTH:
        raise UserError(
            f"a sequence of {row_length} positions",
            topic="mask",
            hint=f"Choose a length from 1 to {MAX_LENGTH}.",
        )
    return row_length


def _check_used(numbers: dict[str, int], names: set[str]) -> None:
    """Refuse an option without effect: the expression has no such name without a number."""
    for name in numbers:
        if name not in names:
            raise UserError(
                f"{OPTIONS[name]} has no effect: the expression has no {name} without a number",
                topic="mask",
                hint=f"Write {name}, or leave {OPTIONS[name]} out.",
            )
