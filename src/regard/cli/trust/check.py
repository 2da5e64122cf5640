"""`regard check`: run the contract tests on the parts that a user's file adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, console, print_json, progress_bar
from regard.core.errors import UserError
from regard.evaluation.formatting import quantity

if TYPE_CHECKING:
    from regard.contracts.contract import Result
    from regard.core.catalog import Entry
    from regard.core.user_files import UserFile


def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Python file that adds parts, e.g. my_kind.py.")
    ],
    configurations: Annotated[
        int, typer.Option(min=1, help="Random configurations per contract.")
    ] = 50,
    seed: Annotated[int, typer.Option(help="Random seed of the configurations.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Run the contract tests on your own attention kinds and parts.

    Exit code 0: all as declared, 1: a contract is broken, 2: the file cannot be loaded."""
    from regard import api

    (user_file,) = api.load_parts([file])
    if not user_file.parts:
        raise UserError(
            f"{file} adds no part",
            topic="check",
            hint='An attention kind is a class decorated with @kind("its-name", cost=…): see '
            "CONTRIBUTING.md, `A kind in your own file`.",
        )
    checked = [(part, _check_part(part, configurations, seed=seed)) for part in user_file.parts]
    as_declared = all(result.is_as_declared for _, results in checked for result in results)
    if as_json:
        print_json(_as_dict(user_file, checked, as_declared=as_declared))
    else:
        for part, results in checked:
            _print(part, results)
    raise typer.Exit(0 if as_declared else 1)


def _check_part(part: Entry, configurations: int, *, seed: int) -> list[Result]:
    from regard.contracts.check import check_part

    with progress_bar(f"contracts of {part.name}") as on_progress:
        done = 0

        def on_result(result: Result) -> None:
            nonlocal done
            done += 1
            on_progress(done, None)

        return check_part(part, configurations=configurations, seed=seed, on_result=on_result)


def _as_dict(
    user_file: UserFile, checked: list[tuple[Entry, list[Result]]], *, as_declared: bool
) -> dict[str, object]:
    return {
        "file": str(user_file.path),
        "as_declared": as_declared,
        "parts": [
            {
                "catalog": part.catalog,
                "name": part.name,
                "source": part.source,
                "results": [result.as_dict() for result in results],
            }
            for part, results in checked
        ],
    }


def _print(part: Entry, results: list[Result]) -> None:
    from rich.text import Text

    from regard.cli.catalog.properties import source_location
    from regard.cli.tables import plain_table, print_indented

    title = Text(f"\n  {part.catalog} ") + Text(part.name, style="bold")
    console().print(title + Text(f"  {source_location(part)}", style="dim"), soft_wrap=True)
    if not results:
        console().print(f"  loaded; there are no contracts for a {part.catalog} yet")
        return
    table = plain_table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for result in results:
        if result.is_not_applicable:
            continue
        mark, style, note = _verdict(result)
        statement = Text(result.statement)
        if note:
            statement += Text(f"\n{note}", style=style)
        table.add_row(Text(mark, style=style), result.contract, statement)
    print_indented(table)
    _print_not_applicable(results)
    console().print(Text(f"  {_summary(results)}", style="bold"), soft_wrap=True)


def _print_not_applicable(results: list[Result]) -> None:
    """One line per reason."""
    from rich.text import Text

    by_reason: dict[str, list[str]] = {}
    for result in results:
        if result.is_not_applicable:
            by_reason.setdefault(result.sentence, []).append(result.contract)
    for reason, names in by_reason.items():
        console().print(Text(f"  –  {', '.join(names)}: {reason}", style="dim"))


def _verdict(result: Result) -> tuple[str, str, str]:
    """Mark, colour, and a note on failures."""
    if not result.is_as_declared:
        return "✗", "red", result.sentence
    if result.expected_to_fail:
        return "✗", "yellow", f"as declared: {result.sentence}"
    return "✓", "green", ""


def _summary(results: list[Result]) -> str:
    broken = [result.contract for result in results if not result.is_as_declared]
    configurations = max(result.configurations for result in results)
    applicable = sum(not result.is_not_applicable for result in results)
    if broken:
        return f"{len(broken)} of {len(results)} contracts are broken: {', '.join(broken)}"
    each = quantity(configurations, "random configurations")
    return f"as declared: {quantity(applicable, 'contracts')}, up to {each} each"
