"""Lessons as pages: one lesson alone, or all of them as a booklet. No script, no request.

The look is the report's (`reports/templates/report.css`); charts stand in light and dark, wide and
narrow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from regard.evaluation import wording
from regard.lessons import number_format
from regard.lessons.exercise import exercise_names
from regard.lessons.registry import lessons_by_topic
from regard.lessons.run_lesson import LessonRun
from regard.lessons.topics import TOPICS, Topic
from regard.reports.charts.theme import Chart, Theme
from regard.reports.run_report import InlineChart, drawings


def lesson_html(ran: LessonRun) -> str:
    """A lesson as a page of its own."""
    return _templates().get_template("lesson.html.j2").render(ran=ran, charts=charts_of(ran))


def section_html(ran: LessonRun) -> str:
    """A lesson as a piece of HTML with its own style, for a notebook."""
    return _templates().get_template("section.html.j2").render(ran=ran, charts=charts_of(ran))


def booklet_html(all_ran: Sequence[LessonRun]) -> str:
    """Every lesson below one another, by topic, with a table of contents."""
    return (
        _templates()
        .get_template("booklet.html.j2")
        .render(
            topics=by_topic(all_ran),
            charts={ran.about.name: charts_of(ran) for ran in all_ran},
            checks=sum(len(ran.result.checks) for ran in all_ran),
            failed=[ran for ran in all_ran if not ran.passed],
        )
    )


def course_html(all_ran: Sequence[LessonRun]) -> str:
    """What a course calls its topics, and which lessons, exercises and studies belong to each."""
    topics = [
        (_topic(name), lessons, _studies(_topic(name), lessons))
        for name, lessons in by_topic(all_ran).items()
    ]
    page = _templates().get_template("course.html.j2")
    return page.render(topics=topics)


def by_topic(all_ran: Sequence[LessonRun]) -> dict[str, list[LessonRun]]:
    """In the order of a course."""
    found = {ran.about.name: ran for ran in all_ran}
    sorted_ = {
        topic: [found[one.name] for one in lessons if one.name in found]
        for topic, lessons in lessons_by_topic().items()
    }
    return {topic: ran for topic, ran in sorted_.items() if ran}


def charts_of(ran: LessonRun) -> list[InlineChart]:
    def draw(_: object, *, theme: Theme, width: int) -> Chart:
        return ran.result.chart(theme=theme, width=width)

    # `drawings` makes ids of the function's name: in a booklet each chart needs its own.
    draw.__name__ = ran.about.name
    return drawings(draw, ran)


def typeset(text: str) -> Markup:
    """Text as HTML: `…` as code, k_a with its index below the line, e^(−β) with its power above."""
    pieces = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else _raised_and_lowered(piece)
        for number, piece in enumerate(pieces)
    )


def _raised_and_lowered(text: str) -> Markup:
    html = str(escape(text))
    html = re.sub(r"(?<![A-Za-z0-9_])(\w)_([a-z]{1,3})(?![A-Za-z0-9_(])", r"\1<sub>\2</sub>", html)
    html = re.sub(r"\^\(((?:[^()]|\([^()]*\))*)\)", r"<sup>\1</sup>", html)
    # Safe: escaped above, and only these two elements were added since.
    return Markup(re.sub(r"\^(−?[\wα-ω]+)", r"<sup>\1</sup>", html))


def anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _topic(name: str) -> Topic:
    return next((topic for topic in TOPICS if topic.name == name), Topic(name, ""))


def _studies(topic: Topic, lessons: Sequence[LessonRun]) -> list[str]:
    seen = [place for ran in lessons for place in ran.result.see if place.startswith("recipes/")]
    return list(dict.fromkeys([*topic.studies, *seen]))


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=ChoiceLoader([PackageLoader("regard.lessons"), PackageLoader("regard.reports")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for write in (
        number_format.written,
        number_format.measured,
        number_format.expected,
        wording.duration,
        wording.capitalised,
        typeset,
        anchor,
    ):
        templates.filters[write.__name__] = write
    templates.globals["has_exercise"] = lambda name: name in exercise_names()
    return templates
