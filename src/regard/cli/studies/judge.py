"""`regard judge`: verdicts on results that regard did not make."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, print_json
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.studies.judging.columns import RowFilter


def judge(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="File of items, or NAME=FILE; the first is the reference. "
            "Several files of one name are its seeds.",
        ),
    ],
    metric: Annotated[
        str | None, typer.Option(help="Column that decides, or a known metric, such as accuracy.")
    ] = None,
    id: Annotated[str | None, typer.Option(help="Column that identifies an item.")] = None,
    seed: Annotated[str | None, typer.Option(help="Column that holds the seed.")] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Column of what belongs together, such as a passage."),
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Column that tells variants apart, in one file of all.")
    ] = None,
    predicted: Annotated[str | None, typer.Option(help="Column that holds predictions.")] = None,
    truth: Annotated[str | None, typer.Option(help="Column that holds true answers.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE: judge these rows only; repeatable.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="Variant that the others are compared with.")
    ] = None,
    lower_is_better: Annotated[
        bool | None,
        typer.Option(
            "--lower-is-better/--higher-is-better", help="If the metric's name does not tell."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the report; default: runs/NAME.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare results of other tools, item by item, with the verdicts of a study.

    Reads JSON lines, CSV, TSV, Parquet, arrays (.npz), samples of lm-evaluation-harness and logs of
    inspect-ai. Columns that are not named are found by their usual names, and the remarks say
    which."""
    from regard.api.judging import judge_files
    from regard.cli.studies.verdict_table import print_outcome
    from regard.studies.judging.settings import JudgeSettings

    settings = JudgeSettings(
        metric=metric,
        id=id,
        seed=seed,
        group=group,
        variant=variant,
        predicted=predicted,
        truth=truth,
        where=tuple(map(_row_filter, where or ())),
        reference=reference,
        lower_is_better=lower_is_better,
    )
    command = shlex.join(["regard", *sys.argv[1:]])
    outcome = judge_files(list(map(_named_file, files)), settings, command=command, out=out)
    report = outcome.folder / "report.html"
    if as_json:
        print_json(outcome.as_dict() | {"report": str(report)})
    else:
        print_outcome(outcome, report)


def _named_file(text: str) -> tuple[str, Path]:
    """The variant's name, empty if it has none, and its file."""
    name, equals, file = text.partition("=")
    if not equals or Path(text).exists():
        return "", Path(text)
    if not name or not file:
        raise UserError(f"{text}: write NAME=FILE", topic="judge")
    return name, Path(file)


def _row_filter(text: str) -> RowFilter:
    from regard.studies.judging.columns import RowFilter

    column, equals, value = text.partition("=")
    if not equals or not column:
        raise UserError(f"--where {text}: write --where COLUMN=VALUE", topic="judge")
    return RowFilter(column, value)
