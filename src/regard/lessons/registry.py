"""Catalogue of lessons, and what each declares: topic, question, claim, parameters.

The first line of a lesson's docstring is its question; the rest is the claim and why it holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from regard.core.catalog import Catalog, Entry
from regard.lessons.lesson import LessonFunction
from regard.lessons.parameters import Parameter, declared_parameters

LESSONS = Catalog("lesson", home="regard.lessons.topics")

Duration = Literal["seconds", "a minute"]


@dataclass(frozen=True)
class LessonInfo:
    """A lesson's declaration, available without running it."""

    name: str
    title: str
    topic: str
    question: str
    claim: str
    duration: Duration
    source: str
    parameters: tuple[Parameter, ...]
    function: LessonFunction

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "topic": self.topic,
            "question": self.question,
            "claim": self.claim,
            "duration": self.duration,
            "source": self.source,
            "parameters": [
                {key: value for key, value in vars(parameter).items() if value not in (None, ())}
                for parameter in self.parameters
            ],
        }


def lesson(
    name: str, *, topic: str, title: str = "", duration: Duration = "seconds"
) -> Callable[[LessonFunction], LessonFunction]:
    """Decorator: add a lesson to the catalogue; the title defaults to the name in words."""

    def register(function: LessonFunction) -> LessonFunction:
        question, _, claim = (inspect.getdoc(function) or "").partition("\n\n")
        if not question.endswith("?") or not claim.strip():
            raise TypeError(
                f"lesson {name!r}: its docstring is a question, an empty line, and the claim"
            )
        declared_parameters(function)  # fail at import, not when a user runs the lesson
        shown_title = title or name.replace("-", " ").capitalize()
        return LESSONS.add(name, topic=topic, title=shown_title, duration=duration)(function)

    return register


def lesson_info(name: str) -> LessonInfo:
    """The lesson of this name; an unknown name is refused with the closest known one."""
    return _info(LESSONS.get(name))


def lessons_by_topic() -> dict[str, list[LessonInfo]]:
    """Topics in course order; lessons in the topic's order, then by file and line."""
    from regard.lessons.topics import TOPICS

    by_topic: dict[str, list[LessonInfo]] = {topic.name: [] for topic in TOPICS}
    order = [name for topic in TOPICS for name in topic.order]
    for entry in sorted(LESSONS, key=lambda entry: _sort_key(entry, order)):
        by_topic.setdefault(entry.properties["topic"], []).append(_info(entry))
    return {topic: lessons for topic, lessons in by_topic.items() if lessons}


def _sort_key(entry: Entry, order: list[str]) -> tuple[int, str, int]:
    file, _, line = entry.source.rpartition(":")
    return order.index(entry.name) if entry.name in order else len(order), file, int(line)


def _info(entry: Entry) -> LessonInfo:
    question, _, claim = (inspect.getdoc(entry.part) or "").partition("\n\n")
    return LessonInfo(
        name=entry.name,
        title=entry.properties["title"],
        topic=entry.properties["topic"],
        question=" ".join(question.split()),
        claim="\n\n".join(" ".join(paragraph.split()) for paragraph in claim.split("\n\n")),
        duration=entry.properties["duration"],
        source=entry.source,
        parameters=tuple(declared_parameters(entry.part)),
        function=entry.part,
    )
