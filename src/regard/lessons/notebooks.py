"""The booklet as Jupyter notebooks, one per topic: question and claim, then a cell that runs it.

The format is plain JSON (nbformat 4.5), written here without nbformat. Outputs are empty: the
learner runs the cells.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from regard.lessons.registry import LessonInfo

FORMAT = {"nbformat": 4, "nbformat_minor": 5}
NOT_RUN: dict[str, Any] = {"execution_count": None, "outputs": []}
"Fields of a code cell without a result."


def notebook(topic: str, lessons: Sequence[LessonInfo]) -> str:
    """The lessons of one topic as the text of an .ipynb file."""
    heading = f"# {topic[:1].upper()}{topic[1:]}\n\nLessons of regard: run each cell."
    cells = [
        _cell("markdown", "topic", heading),
        _cell("code", "setup", "import regard", **NOT_RUN),
    ]
    for lesson in lessons:
        text = f"## {lesson.title}\n\n**{lesson.question}**\n\n{lesson.claim}"
        cells += [
            _cell("markdown", f"{lesson.name}-claim", text),
            _cell("code", f"{lesson.name}-run", _call(lesson), **NOT_RUN),
        ]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    document = {"cells": cells, "metadata": metadata, **FORMAT}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _call(lesson: LessonInfo) -> str:
    """The call with all defaults written out, so that a learner sees what can be changed."""
    arguments = "".join(f", {one.name}={one.default!r}" for one in lesson.parameters)
    return f'regard.lesson("{lesson.name}"{arguments})'


def _cell(cell_type: str, name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "cell_type": cell_type,
        "id": name[-64:],  # nbformat allows 64 letters, digits and hyphens
        "metadata": {},
        **fields,
        "source": text.splitlines(keepends=True),
    }
