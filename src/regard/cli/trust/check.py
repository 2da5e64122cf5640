"""`regard check FILE`: run the contracts over the parts that a file of one's own adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, console, print_json, progress_bar
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.contracts.contract import Result
    from regard.core.catalog import Entry
    from regard.core.user_files import UserFile


def check(
    file: Annotated[Path, typer.Argument(help="A Python file that adds parts, e.g. my_kind.py.")],
    configurations: Annotated[
        int, typer.Option(min=1, help="Random configurations that each contract is tried on.")
    ] = 50,
    seed: Annotated[int, typer.Option(help="Another seed tries other configurations.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Check parts of your own: what each owes, whether it holds, and the numbers where not.

    Exits with 0 where all is as declared, 1 where something is not, 2 where nothing can be read."""
    from regard import api

    (own,) = api.load_parts([file])
    if not own.parts:
        raise UserError(
            f"{file} adds no part",
            topic="check",
            hint='A kind of attention is a class under @kind("its-name", cost=…): see '
            "CONTRIBUTING.md, `A kind in your own file`.",
        )
    checked = [(part, _checked(part, configurations, seed=seed)) for part in own.parts]
    as_declared = all(result.is_as_declared for _, results in checked for result in results)
    if as_json:
        print_json(_as_dict(own, checked, as_declared=as_declared))
    else:
        for part, results in checked:
            _print(part, results)
    raise typer.Exit(0 if as_declared else 1)


def _checked(part: Entry, configurations: int, *, seed: int) -> list[Result]:
    from regard.contracts.check import check_part

    with progress_bar(f"contracts of {part.name}") as on_progress:
        done: list[Result] = []

        def told(result: Result) -> None:
            done.append(result)
            on_progress(len(done), None)

        return check_part(part, configurations=configurations, seed=seed, on_result=told)


def _as_dict(
    own: UserFile, checked: list[tuple[Entry, list[Result]]], *, as_declared: bool
) -> dict[str, object]:
    return {
        "file": str(own.path),
        "as_declared": as_declared,
        "parts": [
            {
                "sort": part.catalog,
                "name": part.name,
                "source": part.source,
                "results": [result.as_dict() for result in results],
            }
            for part, results in checked
        ],
    }


def _print(part: Entry, results: list[Result]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from regard.cli.catalog.properties import source_location

    title = Text(f"\n  {part.catalog} ") + Text(part.name, style="bold")
    console().print(title + Text(f"  {source_location(part)}", style="dim"), soft_wrap=True)
    if not results:
        console().print(f"  loads; there are no contracts for a {part.catalog} yet")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for result in results:
        if result.is_not_applicable:
            continue
        mark, style, note = _verdict(result)
        said = Text(result.statement)
        if note:
            said += Text(f"\n{note}", style=style)
        table.add_row(Text(mark, style=style), result.contract, said)
    console().print(Padding(table, (0, 0, 0, 2)))
    _print_not_asked(results)
    console().print(Text(f"  {_summary(results)}", style="bold"), soft_wrap=True)


def _print_not_asked(results: list[Result]) -> None:
    """A line for each reason."""
    from rich.text import Text

    by_reason: dict[str, list[str]] = {}
    for result in results:
        if result.is_not_applicable:
            by_reason.setdefault(result.sentence, []).append(result.contract)
    for reason, names in by_reason.items():
        console().print(Text(f"  –  {', '.join(names)}: {reason}", style="dim"))


def _verdict(result: Result) -> tuple[str, str, str]:
    """Mark, colour, and what there is to say beyond the contract itself."""
    if not result.is_as_declared:
        return "✗", "red", result.sentence
    if result.expected_to_fail:
        return "✗", "yellow", f"as declared: {result.sentence}"
    return "✓", "green", ""


def _summary(results: list[Result]) -> str:
    wrong = [result.contract for result in results if not result.is_as_declared]
    tried = max(result.configurations for result in results)
    asked = sum(not result.is_not_applicable for result in results)
    if wrong:
        return f"{len(wrong)} of {len(results)} contracts are broken: {', '.join(wrong)}"
    return f"as declared: {asked} contracts, up to {tried:,} random configurations each"
