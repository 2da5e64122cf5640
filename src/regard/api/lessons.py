"""A lesson, run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.api.arguments import check_text

if TYPE_CHECKING:
    from regard.lessons import LessonRun


def lesson(name: str, /, **parameters: Any) -> LessonRun:
    """Run a lesson: a claim about Transformers, checked by computing it.

    `parameters` are those that the lesson declares, such as `seed`; defaults for the rest.
    """
    from regard.lessons import run_lesson

    check_text(name, "name")
    return run_lesson(name, **parameters)
