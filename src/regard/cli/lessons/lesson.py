"""`regard lesson`: claims about Transformers, checked by running code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import complete_lesson
from regard.cli.console import AsJson, console, print_json, side_console
from regard.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from regard.lessons import LessonInfo, LessonRun

FOLDER = Path("lessons")
"Default folder of the pages."


def lesson(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="LESSON",
            autocompletion=complete_lesson,
            help="Lesson, or `all`; default: list all.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Set a parameter: --set beta=20 or --set β=20; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="HTML file; with `all`, the folder of the booklet."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Only lessons of this topic, for `all` or the list.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a lesson: a question, a claim and numerical checks.

    `regard lesson all` runs every lesson and writes a booklet, notebooks and a page that maps
    course topics to lessons. Exit code 1: a check fails.
    """
    if name is None:
        if settings or out is not None:
            raise UserError(
                "--set and --out need a lesson", topic="lesson", hint="Name one, or `all`."
            )
        _list(topic, as_json)
        return
    if name == "all":
        _run_all(out or FOLDER, topic, settings, as_json)
        return
    if topic is not None:
        raise UserError("--topic only applies to `all`", topic="lesson")
    from regard import api
    from regard.core.files import check_output, write_output
    from regard.lessons.page import lesson_html

    if out is not None:
        check_output(out, topic="lesson")  # before the lesson trains for a minute
    run = api.lesson(name, **_parse_settings(settings or []))
    page = out or (None if as_json else FOLDER / f"{name}.html")
    if page is not None:
        write_output(page, lesson_html(run))
    if as_json:
        print_json(run.as_dict())
    else:
        _print(run)
        console().print(str(page), markup=False, soft_wrap=True)
    if not run.passed:
        raise typer.Exit(1)


def _parse_settings(settings: Sequence[str]) -> dict[str, str]:
    parsed = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {text}: write it as name=value", topic="lesson")
        parsed[key.strip()] = value.strip()
    return parsed


def _lessons_by_topic(topic: str | None) -> dict[str, list[LessonInfo]]:
    """All lessons by topic, or those of one topic."""
    from regard.lessons import lessons_by_topic

    by_topic = lessons_by_topic()
    if topic is None:
        return by_topic
    if topic not in by_topic:
        raise UserError(f"unknown topic {topic!r}{did_you_mean(topic, by_topic)}", topic="lesson")
    return {topic: by_topic[topic]}


def _list(topic: str | None, as_json: bool) -> None:
    from rich.text import Text

    from regard.cli.tables import PlainTable

    by_topic = _lessons_by_topic(topic)
    if as_json:
        print_json([info.as_dict() for lessons in by_topic.values() for info in lessons])
        return
    width = max(len(info.name) for lessons in by_topic.values() for info in lessons)
    for heading, lessons in by_topic.items():
        console().print(Text(heading, style="bold"))
        table = PlainTable(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(min_width=width + 2, no_wrap=True)
        table.add_column()
        for info in lessons:
            question = Text(info.question)
            if info.duration == "a minute":
                question += Text("  up to a minute", style="dim")
            table.add_row(f"  {info.name}", question)
        console().print(table)
    console().print(
        "\n`regard lesson NAME` runs one, `regard lesson all` all of them.", style="dim"
    )


def _print(run: LessonRun) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from regard.cli.lessons.tables import checks_table, numbers_table

    out = console()
    out.print(Text(f"{run.info.topic} · {run.info.title}", style="dim"))
    out.print(Text(run.info.question, style="bold"))
    out.print(Padding(Text(run.info.claim), (1, 0)))
    if run.parameters:
        parameters = ", ".join(f"{key} = {value}" for key, value in run.parameters.items())
        out.print(Text(parameters, style="dim"))
    out.print(numbers_table(run.result.table))
    out.print(Padding(checks_table(run.result.checks), (1, 0)))
    out.print(Text(f"see also: {', '.join(run.result.see_also)}", style="dim"))


def _run_all(
    folder: Path, topic: str | None, settings: Sequence[str] | None, as_json: bool
) -> None:
    from rich.text import Text

    from regard import api
    from regard.lessons.booklet import write_booklet

    if settings:
        raise UserError("--set needs a single lesson, not `all`", topic="lesson")
    selected = [info for lessons in _lessons_by_topic(topic).values() for info in lessons]
    if folder.is_file():
        raise UserError("is a file", topic="lesson", where=str(folder), hint="Name a folder.")
    width = max(len(info.name) for info in selected)
    runs: list[LessonRun] = []
    out = side_console() if as_json else console()
    for info in selected:
        run = api.lesson(info.name)
        runs.append(run)
        passed = sum(check.passed for check in run.result.checks)
        mark = Text("✓ ", style="green") if run.passed else Text("✗ ", style="red")
        tally = f"{passed} of {len(run.result.checks)} checks"
        out.print(mark + Text(f"{info.name.ljust(width)}  {tally}  {run.seconds:5.1f} s"))
        for check in run.result.checks:
            if not check.passed:
                from regard.lessons.number_format import format_expected, format_measured

                failure = (
                    f"    {check.name}: {format_measured(check)}, expected {format_expected(check)}"
                )
                out.print(Text(failure, style="red"))
    files = write_booklet(runs, folder)
    if as_json:
        print_json([run.as_dict() for run in runs])
    else:
        seconds = sum(run.seconds for run in runs)
        out.print(f"{len(runs)} lessons in {seconds:.0f} s", markup=False)
        for file in files:
            out.print(str(file), markup=False, soft_wrap=True)
    if not all(run.passed for run in runs):
        raise typer.Exit(1)
