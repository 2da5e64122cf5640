"""`regard errors RUN [RUN]`: the items a model gets wrong, or on which two models differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, console, print_json
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.runs.archive.item_errors import ErrorItem, ItemErrors

PARTS = ("train", "dev", "test")


def errors(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    other: Annotated[
        Path | None, typer.Argument(help="A second run on the same items: where do they differ?")
    ] = None,
    part: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    most: Annotated[int, typer.Option(min=1, help="Items shown.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Look at single items: the worst answers of a run, or where two runs differ.

    Everything that was measured of an item stands in RUN/items/PART.jsonl."""
    from regard.runs.archive.item_errors import errors_of

    if part not in PARTS:
        raise UserError(
            f"there is no part {part!r}", topic="errors", hint=f"Give one of {', '.join(PARTS)}."
        )
    found = errors_of([one for one in (run, other) if one is not None], part=part)
    if as_json:
        print_json(found.as_dict())
    elif other is None:
        _print_confusion(found)
        _print_items(found.worst(most), found, title="the worst first")
    else:
        _print_agreement(found)
        _print_items(found.differing(most), found, title="where they differ")


def _print_confusion(found: ItemErrors) -> None:
    from rich.padding import Padding
    from rich.table import Table

    counts = found.confusion
    if not counts:
        return
    labels = sorted({label for pair in counts for label in pair})
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("true ╲ answered")
    for label in labels:
        table.add_column(label, justify="right")
    for truth in labels:
        cells = [counts.get((truth, answer), 0) for answer in labels]
        table.add_row(
            truth,
            *(
                f"[bold]{n:,}[/]" if a == truth else f"{n:,}"
                for a, n in zip(labels, cells, strict=True)
            ),
        )
    console().print(Padding(table, (1, 0, 0, 2)))


def _print_agreement(found: ItemErrors) -> None:
    told = found.agreement
    first, second = found.runs
    console().print(
        f"\n  {first}  and  {second}, {found.part}, n = {len(found.items):,}", markup=False
    )
    if not sum(told.values()):
        return
    for who, n in told.items():
        named = who.replace("the first", first).replace("the second", second)
        console().print(f"  {n:>7,}  right: {named}", markup=False)
    if found.p is None:
        console().print("  they are right and wrong on the same items")
        return
    apart = told["only the first"] + told["only the second"]
    console().print(
        f"  of {apart:,} on which exactly one is right, p = {found.p:.3g} that they split so by "
        "chance; this speaks of these trained models, not of the methods",
        soft_wrap=True,
        markup=False,
    )


def _print_items(items: list[ErrorItem], found: ItemErrors, *, title: str) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_lines=False)
    several = len(found.runs) > 1
    for heading in ("item", "", "true", *(found.runs if several else ("answered",)), "loss"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "loss" else "left")
    for item in items:
        losses = " / ".join("–" if loss is None else f"{loss:.2f}" for loss in item.loss)
        table.add_row(
            f"{item.item}",
            Text(_short(item.shown)),
            Text(_short(item.truth, 40)),
            *(
                Text(_short(answer, 40), _style(right))
                for answer, right in zip(item.predicted, item.right, strict=True)
            ),
            losses,
        )
    console().print(f"\n  {title}")
    console().print(Padding(table, (0, 0, 0, 2)))


def _short(text: str, most: int = 120) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _style(right: bool | None) -> str:
    return "" if right is None else "green" if right else "red"
