"""Running a lesson: its parameters are checked, its result is kept with what it was run with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from regard.lessons.lesson import Lesson
from regard.lessons.parameters import read_parameters
from regard.lessons.registry import LessonInfo, about


@dataclass(frozen=True)
class LessonRun:
    """A lesson that was run."""

    about: LessonInfo
    parameters: dict[str, float | int | str]
    result: Lesson
    seconds: float

    @property
    def passed(self) -> bool:
        return self.result.passed

    def as_dict(self) -> dict[str, Any]:
        return {
            **{key: value for key, value in self.about.as_dict().items() if key != "parameters"},
            "parameters": self.parameters,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "checks": [check.as_dict() for check in self.result.checks],
            "table": {
                "columns": list(self.result.table.columns),
                "rows": [list(row) for row in self.result.table.rows],
            },
            "caption": self.result.caption,
            "see": list(self.result.see),
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: the lesson, with its chart."""
        from regard.lessons.page import section_html

        return section_html(self)


def run_lesson(name: str, /, **given: Any) -> LessonRun:
    """Run the lesson of this name, with these parameters or its defaults."""
    found = about(name)
    values = read_parameters(list(found.parameters), given, lesson=name)
    start = time.perf_counter()
    result = found.function(**values)
    return LessonRun(found, values, result, time.perf_counter() - start)
