"""Lessons as HTML pages: a single lesson, or all as a booklet. No scripts, no requests.

Styled by the report's `reports/templates/report.css`; charts are inlined in light and dark, wide
and narrow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape

from regard.evaluation import formatting
from regard.lessons import number_format
from regard.lessons.exercise import exercise_names
from regard.lessons.registry import lessons_by_topic
from regard.lessons.run_lesson import LessonRun
from regard.lessons.topics import TOPICS, Topic
from regard.reports.charts.theme import Chart, Theme
from regard.reports.run_report import (
    FRAGMENT_WIDTHS,
    WIDTHS,
    InlineChart,
    build_templates,
    draw_inline_charts,
)


def lesson_html(run: LessonRun) -> str:
    """A lesson as a standalone page."""
    page = _templates().get_template("lesson.html.j2")
    return page.render(run=run, charts=inline_charts(run))


def section_html(run: LessonRun) -> str:
    """A lesson as an HTML fragment with its own style, for a notebook."""
    fragment = _templates().get_template("section.html.j2")
    return fragment.render(run=run, charts=inline_charts(run, FRAGMENT_WIDTHS))


def numbers_html(run: LessonRun) -> str:
    """The table alone, as it stands in a page."""
    macros: Any = _templates().get_template("macros.html.j2").module
    return str(macros.numbers(run.result.table))


def checks_html(run: LessonRun) -> str:
    """The checks alone."""
    macros: Any = _templates().get_template("macros.html.j2").module
    return str(macros.checks(run.result.checks))


def booklet_html(runs: Sequence[LessonRun]) -> str:
    """All lessons on one page, by topic, with a table of contents."""
    page = _templates().get_template("booklet.html.j2")
    return page.render(
        topics=group_by_topic(runs),
        charts={run.info.name: inline_charts(run) for run in runs},
        checks=sum(len(run.result.checks) for run in runs),
        failed=[run for run in runs if not run.passed],
    )


def course_html(runs: Sequence[LessonRun]) -> str:
    """Map from a course's topics to lessons, exercises and studies."""
    topics = [
        (topic := _topic(name), topic_runs, _studies(topic, topic_runs))
        for name, topic_runs in group_by_topic(runs).items()
    ]
    page = _templates().get_template("course.html.j2")
    return page.render(topics=topics)


def group_by_topic(runs: Sequence[LessonRun]) -> dict[str, list[LessonRun]]:
    """In course order; topics without a run are left out."""
    by_name = {run.info.name: run for run in runs}
    by_topic = {
        topic: [by_name[lesson.name] for lesson in lessons if lesson.name in by_name]
        for topic, lessons in lessons_by_topic().items()
    }
    return {topic: topic_runs for topic, topic_runs in by_topic.items() if topic_runs}


def inline_charts(run: LessonRun, widths: Mapping[str, int] = WIDTHS) -> list[InlineChart]:
    def draw(_: object, *, theme: Theme, width: int) -> Chart:
        return run.result.chart(theme=theme, width=width)

    return draw_inline_charts(draw, run, widths)


def typeset(text: str) -> Markup:
    """Text as HTML: `…` as code, k_a with a subscript, e^(−β) with a superscript."""
    pieces = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else _subscripts_superscripts(piece)
        for number, piece in enumerate(pieces)
    )


def _subscripts_superscripts(text: str) -> Markup:
    html = str(escape(text))
    html = re.sub(r"(?<![A-Za-z0-9_])(\w)_([a-z]{1,3})(?![A-Za-z0-9_(])", r"\1<sub>\2</sub>", html)
    html = re.sub(r"\^\(((?:[^()]|\([^()]*\))*)\)", r"<sup>\1</sup>", html)
    # Safe: escaped above; only <sub> and <sup> were added since.
    return Markup(re.sub(r"\^(−?[\wα-ω]+)", r"<sup>\1</sup>", html))


def anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _topic(name: str) -> Topic:
    return next((topic for topic in TOPICS if topic.name == name), Topic(name, ""))


def _studies(topic: Topic, runs: Sequence[LessonRun]) -> list[str]:
    cited = [path for run in runs for path in run.result.see_also if path.startswith("recipes/")]
    return list(dict.fromkeys([*topic.studies, *cited]))


@cache
def _templates() -> Environment:
    filters = (
        number_format.format_value,
        number_format.format_measured,
        number_format.format_expected,
        formatting.duration,
        formatting.capitalise,
        typeset,
        anchor,
    )
    templates = build_templates("regard.lessons", "regard.reports", filters=filters)
    templates.globals["has_exercise"] = lambda name: name in exercise_names()
    return templates
