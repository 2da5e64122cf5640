"""`regard exercise`: a lesson's question with one's own numbers, and marks for answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, console, print_json
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.lessons.marking import MarkedAnswer


def exercise(
    name: Annotated[str | None, typer.Argument(help="An exercise; none: the list of them.")] = None,
    new: Annotated[
        int | None, typer.Option("--new", metavar="SEED", help="Pose it with the numbers of SEED.")
    ] = None,
    answer: Annotated[
        Path | None, typer.Option(help="An answer to mark, or a folder of answers.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the sheet, or the CSV of marks.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pose an exercise, or mark answers to it.

    `--new 7` writes a sheet (JSON) with numbers of its own and no answer in it. `--answer FILE`
    says how far the answer is from the goal, and draws the weights; a folder gives a CSV of marks.
    A CSV file does not say its seed: add `--new 7`; where several things are asked for, a line
    with the name of each stands above it. The exit code is 1 where an answer is not within the
    goal.
    """
    if name is None:
        if new is not None or answer is not None or out is not None:
            raise UserError(
                "say which exercise", topic="exercise", hint="`regard exercise` lists them."
            )
        _list(as_json)
    elif answer is not None:
        _mark(name, answer, seed=new, out=out, as_json=as_json)
    elif new is not None:
        _pose(name, new, out=out, as_json=as_json)
    else:
        from regard.lessons.exercise import EXERCISES

        EXERCISES.get(name)
        raise UserError(
            "say what to do",
            topic="exercise",
            where=name,
            hint="Add --new SEED for a sheet, or --answer FILE to mark one.",
        )


def _list(as_json: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from regard.lessons.exercise import build_sheet, exercise_names

    posed = {name: build_sheet(name, 0) for name in exercise_names()}
    wanted = {name: ", ".join(slot.name for slot in one.slots) for name, one in posed.items()}
    if as_json:
        print_json(
            [{"name": name, "answer": wanted[name], "task": posed[name].task} for name in posed]
        )
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("exercise", "answer", "task, here with seed 0"):
        table.add_column(heading, no_wrap=heading == "exercise")
    for name, one in posed.items():
        table.add_row(Text(name), Text(wanted[name]), Text(one.task))
    console().print(table)


def _pose(name: str, seed: int, *, out: Path | None, as_json: bool) -> None:
    from rich.text import Text

    from regard.lessons.exercise import build_sheet, sheet_dict
    from regard.lessons.sheet_json import dump_sheet
    from regard.reports.run_report import write_page

    if as_json and out is None:
        print_json(sheet_dict(name, seed))
        return
    file = out or Path(f"{name}-{seed}.json")
    text = dump_sheet(sheet_dict(name, seed))
    _check_free(file, text)
    write_page(file, text)
    if as_json:
        print_json(sheet_dict(name, seed))
        return
    posed = build_sheet(name, seed)
    console().print(Text(posed.task, style="bold"))
    for slot in posed.slots:
        console().print(Text(f"  {slot.name}: {slot.format}"))
    console().print(f"{file}", markup=False, soft_wrap=True)
    told = f"Fill in `answer`, then: regard exercise {name} --answer {file}"
    console().print(Text(told, style="dim"), soft_wrap=True)


def _check_free(file: Path, text: str) -> None:
    """A sheet that somebody has begun to fill in is not written over."""
    if file.is_dir():
        raise UserError("is a folder", topic="exercise", where=str(file), hint="Name a file.")
    if file.exists() and file.read_bytes() != text.encode():
        raise UserError(
            "is already there, with something else in it",
            topic="exercise",
            where=str(file),
            hint="Name another file with --out, or delete it.",
        )


def _mark(name: str, place: Path, *, seed: int | None, out: Path | None, as_json: bool) -> None:
    from regard.lessons.exercise import EXERCISES
    from regard.lessons.marking import mark_file, mark_folder, marks_csv
    from regard.reports.run_report import write_page

    EXERCISES.get(name)  # an unknown name is told before a file is looked for
    folder = place.is_dir()
    marked = (
        mark_folder(name, place, seed=seed, marks=out)
        if folder
        else [mark_file(name, place, seed=seed)]
    )
    if out is not None:
        write_page(out, marks_csv(marked))
    if as_json:
        print_json([one.row() for one in marked])
    elif folder:
        _print_folder(marked, out)
    else:
        _print_one(marked[0])
    if not all(one.mark is not None and one.mark.passed for one in marked):
        raise typer.Exit(1)


def _print_folder(marked: list[MarkedAnswer], out: Path | None) -> None:
    from regard.lessons.marking import marks_csv

    if out is None:
        print(marks_csv(marked), end="")
        return
    passed = sum(one.mark is not None and one.mark.passed for one in marked)
    console().print(f"{passed} of {len(marked)} answers are within the goal", markup=False)
    console().print(str(out), markup=False, soft_wrap=True)


def _print_one(marked: MarkedAnswer) -> None:
    from rich.text import Text

    from regard.cli.lessons.tables import draw_attention
    from regard.lessons.number_format import format_value

    mark = marked.mark
    assert mark is not None
    sign = Text("✓ ", style="green") if mark.passed else Text("✗ ", style="bold red")
    distance, tolerance = format_value(mark.distance), format_value(mark.tolerance)
    goal = f"{distance} from the goal, and {tolerance} is near enough"
    console().print(sign + Text(goal))
    console().print(Text(mark.feedback))
    if mark.attention_map is not None:
        console().print(draw_attention(mark.attention_map))
