"""Every lesson by name, and what its function says about itself.

The docstring's first line is the question; the rest is the claim and why it holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from regard.core.catalog import Catalog, Entry
from regard.lessons.lesson import LessonFunction
from regard.lessons.parameters import Parameter, parameters

LESSONS = Catalog("lesson", home="regard.lessons.topics")

Takes = Literal["seconds", "a minute"]


@dataclass(frozen=True)
class LessonInfo:
    """A lesson before it runs."""

    name: str
    title: str
    topic: str
    question: str
    claim: str
    takes: Takes
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
            "takes": self.takes,
            "source": self.source,
            "parameters": [
                {key: value for key, value in vars(one).items() if value not in (None, ())}
                for one in self.parameters
            ],
        }


def lesson(
    name: str, *, topic: str, title: str = "", takes: Takes = "seconds"
) -> Callable[[LessonFunction], LessonFunction]:
    """Decorator: put a lesson into the catalogue; the title follows from the name unless given."""

    def register(function: LessonFunction) -> LessonFunction:
        question, _, claim = (inspect.getdoc(function) or "").partition("\n\n")
        if not question.endswith("?") or not claim.strip():
            raise TypeError(f"lesson {name!r}: its docstring is a question, a gap, and the claim")
        parameters(function)  # refused here, not when somebody runs it
        shown = title or name.replace("-", " ").capitalize()
        return LESSONS.add(name, topic=topic, title=shown, takes=takes)(function)

    return register


def about(name: str) -> LessonInfo:
    """The lesson of this name; an unknown one says which was meant."""
    return _about(LESSONS.get(name))


def lessons_by_topic() -> dict[str, list[LessonInfo]]:
    """Topics in the order of a course, lessons in the order of their files and lines."""
    from regard.lessons.topics import TOPICS

    found: dict[str, list[LessonInfo]] = {topic.name: [] for topic in TOPICS}
    first = [name for topic in TOPICS for name in topic.first]
    for entry in sorted(LESSONS, key=lambda entry: _place(entry, first)):
        found.setdefault(entry.properties["topic"], []).append(_about(entry))
    return {topic: lessons for topic, lessons in found.items() if lessons}


def _place(entry: Entry, first: list[str]) -> tuple[int, str, int]:
    file, _, line = entry.source.rpartition(":")
    return first.index(entry.name) if entry.name in first else len(first), file, int(line)


def _about(entry: Entry) -> LessonInfo:
    question, _, claim = (inspect.getdoc(entry.part) or "").partition("\n\n")
    return LessonInfo(
        name=entry.name,
        title=entry.properties["title"],
        topic=entry.properties["topic"],
        question=" ".join(question.split()),
        claim="\n\n".join(" ".join(part.split()) for part in claim.split("\n\n")),
        takes=entry.properties["takes"],
        source=entry.source,
        parameters=tuple(parameters(entry.part)),
        function=entry.part,
    )
