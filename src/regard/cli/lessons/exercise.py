"""`regard exercise`: exercise sheets with random numbers, and marking of answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import complete_exercise
from regard.cli.console import AsJson, console, print_json
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.lessons.marking import MarkedAnswer


def exercise(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="EXERCISE",
            autocompletion=complete_exercise,
            help="Exercise; default: list all.",
        ),
    ] = None,
    new: Annotated[
        int | None,
        typer.Option("--new", metavar="SEED", help="Write a sheet with the numbers of SEED."),
    ] = None,
    answer: Annotated[
        Path | None, typer.Option(help="Answer file to mark, or a folder of them.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the sheet, or for the CSV of marks.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write an exercise sheet, or mark answers to it.

    `--new 7` writes a sheet (JSON) with random numbers and empty answers. `--answer FILE` reports
    the distance of an answer from the goal and draws the attention weights; a folder gives a CSV
    of marks. A CSV answer has no seed: add `--new 7`; with several answers, a line with the name
    precedes each. Exit code 1: an answer misses the goal.
    """
    if name is None:
        if new is not None or answer is not None or out is not None:
            raise UserError(
                "name the exercise", topic="exercise", hint="`regard exercise` lists them."
            )
        _list(as_json)
    elif answer is not None:
        _mark(name, answer, seed=new, out=out, as_json=as_json)
    elif new is not None:
        _write_sheet(name, new, out=out, as_json=as_json)
    else:
        from regard.lessons.exercise import EXERCISES

        EXERCISES.get(name)
        raise UserError(
            "--new or --answer is missing",
            topic="exercise",
            where=name,
            hint="Add --new SEED for a sheet, or --answer FILE to mark one.",
        )


def _list(as_json: bool) -> None:
    from rich.text import Text

    from regard.cli.tables import PlainTable
    from regard.lessons.exercise import build_sheet, exercise_names

    sheets = {name: build_sheet(name, 0) for name in exercise_names()}
    answers = {name: ", ".join(slot.name for slot in one.slots) for name, one in sheets.items()}
    if as_json:
        print_json(
            [{"name": name, "answer": answers[name], "task": sheets[name].task} for name in sheets]
        )
        return
    table = PlainTable(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("exercise", "answer", "task, here with seed 0"):
        table.add_column(heading, no_wrap=heading == "exercise")
    for name, sheet in sheets.items():
        table.add_row(Text(name), Text(answers[name]), Text(sheet.task))
    console().print(table)


def _write_sheet(name: str, seed: int, *, out: Path | None, as_json: bool) -> None:
    from rich.text import Text

    from regard.core.files import write_output
    from regard.lessons.exercise import build_sheet, sheet_dict
    from regard.lessons.sheet_json import dump_sheet

    if as_json and out is None:
        print_json(sheet_dict(name, seed))
        return
    file = out or Path(f"{name}-{seed}.json")
    text = dump_sheet(sheet_dict(name, seed))
    _check_overwrite(file, text)
    write_output(file, text)
    if as_json:
        print_json(sheet_dict(name, seed))
        return
    sheet = build_sheet(name, seed)
    console().print(Text(sheet.task, style="bold"))
    for slot in sheet.slots:
        console().print(Text(f"  {slot.name}: {slot.format}"))
    console().print(f"{file}", markup=False, soft_wrap=True)
    next_step = f"Fill in `answer`, then: regard exercise {name} --answer {file}"
    console().print(Text(next_step, style="dim"), soft_wrap=True)


def _check_overwrite(file: Path, text: str) -> None:
    """Do not overwrite a sheet that is partly filled in."""
    from regard.core.files import check_output

    check_output(file, topic="exercise")
    if file.exists() and file.read_bytes() != text.encode():
        raise UserError(
            "exists already, with other content",
            topic="exercise",
            where=str(file),
            hint="Name another file with --out, or delete it.",
        )


def _mark(name: str, path: Path, *, seed: int | None, out: Path | None, as_json: bool) -> None:
    from regard.core.files import write_output
    from regard.lessons.exercise import EXERCISES
    from regard.lessons.marking import mark_file, mark_folder, marks_csv

    EXERCISES.get(name)  # report an unknown exercise before a missing file
    is_folder = path.is_dir()
    marked = (
        mark_folder(name, path, seed=seed, marks=out)
        if is_folder
        else [mark_file(name, path, seed=seed)]
    )
    if out is not None:
        write_output(out, marks_csv(marked))
    if as_json:
        print_json([one.row() for one in marked])
    elif is_folder:
        _print_marks(marked, out)
    else:
        _print_mark(marked[0])
    if not all(one.mark is not None and one.mark.passed for one in marked):
        raise typer.Exit(1)


def _print_marks(marked: list[MarkedAnswer], out: Path | None) -> None:
    from regard.lessons.marking import marks_csv

    if out is None:
        print(marks_csv(marked), end="")
        return
    passed = sum(one.mark is not None and one.mark.passed for one in marked)
    console().print(f"{passed} of {len(marked)} answers are within the goal", markup=False)
    console().print(str(out), markup=False, soft_wrap=True)


def _print_mark(marked: MarkedAnswer) -> None:
    from rich.text import Text

    from regard.cli.lessons.tables import draw_attention
    from regard.lessons.number_format import format_value

    mark = marked.mark
    assert mark is not None
    sign = Text("✓ ", style="green") if mark.passed else Text("✗ ", style="bold red")
    distance, tolerance = format_value(mark.distance), format_value(mark.tolerance)
    goal = f"{distance} from the goal (tolerance {tolerance})"
    console().print(sign + Text(goal))
    console().print(Text(mark.feedback))
    if mark.attention_map is not None:
        console().print(draw_attention(mark.attention_map))
