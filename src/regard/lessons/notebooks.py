"""The booklet as notebooks, one a topic: a cell with question and claim, a cell that runs it.

The format is plain JSON (nbformat 4.5), written here; outputs are left empty, since running a cell
is the point.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from regard.lessons.registry import LessonInfo

FORMAT = {"nbformat": 4, "nbformat_minor": 5}


def notebook(topic: str, lessons: Sequence[LessonInfo]) -> str:
    """One topic's lessons, as the text of an .ipynb file."""
    cells = [
        _words("topic", f"# {topic[:1].upper()}{topic[1:]}\n\nLessons of regard: run each cell."),
        _code("setup", "from regard.lessons import run_lesson"),
    ]
    for lesson in lessons:
        told = f"## {lesson.title}\n\n**{lesson.question}**\n\n{lesson.claim}"
        cells += [_words(f"{lesson.name}-claim", told), _code(f"{lesson.name}-run", _call(lesson))]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": cells, "metadata": metadata, **FORMAT}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _call(lesson: LessonInfo) -> str:
    """With the defaults written out, so that a learner sees what there is to change."""
    given = "".join(f", {one.name}={one.default!r}" for one in lesson.parameters)
    return f'run_lesson("{lesson.name}"{given})'


def _words(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": _id(name), "metadata": {}, "source": _lines(text)}


def _code(name: str, text: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": _id(name),
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": _lines(text),
    }


def _id(name: str) -> str:
    """The format allows 64 letters, digits and hyphens."""
    return name[-64:]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
