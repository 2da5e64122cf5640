"""`regard errors`: the items a model gets wrong, or on which two models differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import complete_run
from regard.cli.console import AsJson, console, print_json
from regard.core.printable import truncate

if TYPE_CHECKING:
    from regard.runs.archive.item_errors import ErrorItem, ItemErrors


def errors(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", autocompletion=complete_run, help="Run folder.")
    ],
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="OTHER",
            autocompletion=complete_run,
            help="Second run on the same items, to compare with.",
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of items shown.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show a run's worst predictions, or where two runs differ.

    RUN/items/SPLIT.jsonl holds everything that was recorded per item."""
    from regard import api

    item_errors = api.errors(run, other, split=split)
    if as_json:
        print_json(item_errors.as_dict())
    elif other is None:
        _print_confusion(item_errors)
        _print_items(item_errors.worst(limit), item_errors, title="worst first")
    else:
        _print_agreement(item_errors)
        _print_items(item_errors.differing(limit), item_errors, title="where they differ")


def _print_confusion(item_errors: ItemErrors) -> None:
    from rich.text import Text

    from regard.cli.tables import plain_table, print_indented

    counts = item_errors.confusion
    if not counts:
        return
    labels = sorted({label for pair in counts for label in pair})
    table = plain_table()
    table.add_column("true ╲ predicted")
    for label in labels:
        table.add_column(Text(label), justify="right")
    for truth in labels:
        cells = [counts.get((truth, answer), 0) for answer in labels]
        table.add_row(
            Text(truth),
            *(
                f"[bold]{n:,}[/]" if a == truth else f"{n:,}"
                for a, n in zip(labels, cells, strict=True)
            ),
        )
    print_indented(table, above=1)


def _print_agreement(item_errors: ItemErrors) -> None:
    agreement = item_errors.agreement
    first, second = item_errors.runs
    n = len(item_errors.items)
    console().print(f"\n  {first}  and  {second}, {item_errors.split}, n = {n:,}", markup=False)
    if not sum(agreement.values()):
        return
    for who, count in agreement.items():
        names = who.replace("the first", first).replace("the second", second)
        console().print(f"  {count:>7,}  right: {names}", markup=False)
    if item_errors.p is None:
        console().print("  they are right and wrong on the same items")
        return
    discordant = agreement["only the first"] + agreement["only the second"]
    console().print(
        f"  McNemar's exact test on the {discordant:,} items that exactly one has right: "
        f"p = {item_errors.p:.3g}, for these trained models, not for the methods",
        soft_wrap=True,
        markup=False,
    )


def _print_items(items: list[ErrorItem], item_errors: ItemErrors, *, title: str) -> None:
    from rich.text import Text

    from regard.cli.tables import plain_table, print_indented

    if not items:
        return
    table = plain_table()
    runs = item_errors.runs if len(item_errors.runs) > 1 else ("predicted",)
    for heading in ("item", "", "true", *runs, "loss"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "loss" else "left")
    for item in items:
        losses = " / ".join("–" if loss is None else f"{loss:.2f}" for loss in item.loss)
        table.add_row(
            f"{item.item}",
            Text(_shorten(item.input)),
            Text(_shorten(item.truth, 40)),
            *(
                Text(_shorten(prediction, 40), _style(correct))
                for prediction, correct in zip(item.predicted, item.is_correct, strict=True)
            ),
            losses,
        )
    console().print(f"\n  {title}")
    print_indented(table)


def _shorten(text: str, max_length: int = 120) -> str:
    return truncate(" ".join(text.split()), max_length)


def _style(is_correct: bool | None) -> str:
    return "" if is_correct is None else "green" if is_correct else "red"
