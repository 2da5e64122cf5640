"""Run a lesson with checked parameters; its result is kept together with them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from regard.lessons.lesson import Lesson
from regard.lessons.parameters import parse_parameters
from regard.lessons.registry import LessonInfo, lesson_info


@dataclass(frozen=True)
class LessonRun:
    """A lesson's result, the parameters it ran with, and its duration."""

    info: LessonInfo
    parameters: dict[str, float | int | str]
    result: Lesson
    seconds: float

    def __repr__(self) -> str:
        checks = self.result.checks
        failed = sum(not check.passed for check in checks)
        verdict = f"{failed} of {len(checks)} checks failed" if failed else "passed"
        return f"<Lesson {self.info.name}: {verdict}>"

    @property
    def passed(self) -> bool:
        return self.result.passed

    def as_dict(self) -> dict[str, Any]:
        return {
            **{key: value for key, value in self.info.as_dict().items() if key != "parameters"},
            "parameters": self.parameters,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "checks": [check.as_dict() for check in self.result.checks],
            "table": {
                "columns": list(self.result.table.columns),
                "rows": [list(row) for row in self.result.table.rows],
            },
            "caption": self.result.caption,
            "see_also": list(self.result.see_also),
        }

    def _repr_html_(self) -> str:
        """The lesson with its chart, as notebooks display it."""
        from regard.lessons.page import section_html

        return section_html(self)


def run_lesson(name: str, /, **arguments: Any) -> LessonRun:
    """Run the lesson of this name with these parameters; defaults for the rest."""
    info = lesson_info(name)
    parameters = parse_parameters(list(info.parameters), arguments, lesson=name)
    start = time.perf_counter()
    result = info.function(**parameters)
    return LessonRun(info, parameters, result, time.perf_counter() - start)
