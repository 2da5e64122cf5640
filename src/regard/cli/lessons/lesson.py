"""`regard lesson`: claims about attention, checked by running them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import AsJson, console, print_json, side_console
from regard.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from regard.lessons import LessonInfo, LessonRun

FOLDER = Path("lessons")
"Where pages go unless --out says otherwise."


def lesson(
    name: Annotated[
        str | None, typer.Argument(help="A lesson, or `all`; none: the list of them.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter: --set beta=20 or --set β=20.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write the page, or with `all` the folder of the booklet."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="With `all` or in the list: the lessons of one topic.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a lesson: its question, its claim, and checks that hold the claim against numbers.

    `regard lesson all` runs every one and writes a booklet, notebooks and a page that maps a
    course's topics. The exit code is 1 where a check does not hold.
    """
    if name is None:
        if settings or out is not None:
            raise UserError(
                "--set and --out go with a lesson", topic="lesson", hint="Name one, or `all`."
            )
        _list(topic, as_json)
        return
    if name == "all":
        _run_all(out or FOLDER, topic, settings, as_json)
        return
    if topic is not None:
        raise UserError("--topic goes with `all`", topic="lesson")
    from regard.lessons import run_lesson
    from regard.lessons.page import lesson_html
    from regard.reports.run_report import write_page

    if out is not None and out.is_dir():  # told before a lesson trains for a minute
        raise UserError("is a folder", topic="lesson", where=str(out), hint="Name a file.")
    ran = run_lesson(name, **_read_settings(settings or []))
    page = out or (None if as_json else FOLDER / f"{name}.html")
    if page is not None:
        write_page(page, lesson_html(ran))
    if as_json:
        print_json(ran.as_dict())
    else:
        _print(ran)
        console().print(str(page), markup=False, soft_wrap=True)
    if not ran.passed:
        raise typer.Exit(1)


def _read_settings(given: Sequence[str]) -> dict[str, str]:
    read = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {one}: write it as name=value", topic="lesson")
        read[key.strip()] = value.strip()
    return read


def _of_topic(topic: str | None) -> dict[str, list[LessonInfo]]:
    """Lessons by topic: all of them, or those of one."""
    from regard.lessons import lessons_by_topic

    found = lessons_by_topic()
    if topic is None:
        return found
    if topic not in found:
        raise UserError(f"unknown topic {topic!r}{did_you_mean(topic, found)}", topic="lesson")
    return {topic: found[topic]}


def _list(topic: str | None, as_json: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    found = _of_topic(topic)
    if as_json:
        print_json([one.as_dict() for lessons in found.values() for one in lessons])
        return
    room = max(len(one.name) for lessons in found.values() for one in lessons)
    for heading, lessons in found.items():
        console().print(Text(heading, style="bold"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(min_width=room + 2, no_wrap=True)
        table.add_column()
        for one in lessons:
            slow = Text("  up to a minute", style="dim")
            shown = Text(one.question)
            table.add_row(f"  {one.name}", shown + slow if one.duration == "a minute" else shown)
        console().print(table)
    console().print("\n`regard lesson NAME` runs one, `regard lesson all` every one.", style="dim")


def _print(ran: LessonRun) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from regard.cli.lessons.tables import checks_table, numbers_table

    say = console()
    say.print(Text(f"{ran.info.topic} · {ran.info.title}", style="dim"))
    say.print(Text(ran.info.question, style="bold"))
    say.print(Padding(Text(ran.info.claim), (1, 0)))
    if ran.parameters:
        with_these = ", ".join(f"{key} = {value}" for key, value in ran.parameters.items())
        say.print(Text(with_these, style="dim"))
    say.print(numbers_table(ran.result.table))
    say.print(Padding(checks_table(ran.result.checks), (1, 0)))
    say.print(Text(f"read on: {', '.join(ran.result.see_also)}", style="dim"))


def _run_all(
    folder: Path, topic: str | None, settings: Sequence[str] | None, as_json: bool
) -> None:
    from rich.text import Text

    from regard.lessons import run_lesson
    from regard.lessons.booklet import write_booklet

    if settings:
        raise UserError("--set goes with one lesson, not with `all`", topic="lesson")
    chosen = [one for lessons in _of_topic(topic).values() for one in lessons]
    if folder.is_file():
        raise UserError("is a file", topic="lesson", where=str(folder), hint="Name a folder.")
    room = max(len(one.name) for one in chosen)
    done: list[LessonRun] = []
    say = side_console() if as_json else console()
    for one in chosen:
        ran = run_lesson(one.name)
        done.append(ran)
        held = sum(check.passed for check in ran.result.checks)
        mark = Text("✓ ", style="green") if ran.passed else Text("✗ ", style="red")
        tally = f"{held} of {len(ran.result.checks)} checks"
        say.print(mark + Text(f"{one.name.ljust(room)}  {tally}  {ran.seconds:5.1f} s"))
        for check in ran.result.checks:
            if not check.passed:
                from regard.lessons.number_format import format_expected, format_measured

                wrong = (
                    f"    {check.name}: {format_measured(check)}, expected {format_expected(check)}"
                )
                say.print(Text(wrong, style="red"))
    files = write_booklet(done, folder)
    if as_json:
        print_json([ran.as_dict() for ran in done])
    else:
        seconds = sum(ran.seconds for ran in done)
        say.print(f"{len(done)} lessons in {seconds:.0f} s", markup=False)
        for file in files:
            say.print(str(file), markup=False, soft_wrap=True)
    if not all(ran.passed for ran in done):
        raise typer.Exit(1)
