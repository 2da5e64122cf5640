""" "I don't know": the thresholds of a run's answers on dev, and what each would mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from regard.evaluation.metrics.risk_coverage import (
    OperatingPoint,
    operating_point,
    operating_points,
)
from regard.runs.archive.selective import SPLIT, RunAnswers, read_answers
from regard.runs.items import read_items


@dataclass(frozen=True)
class SelectiveCurve:
    """The risk–coverage curve of dev, with intervals."""

    answers: RunAnswers
    points: list[OperatingPoint]

    @classmethod
    def of_run(cls, run: Path) -> Self:
        answers = read_answers(run)
        return cls(answers, operating_points(answers.judged, split=SPLIT, items=answers.items))

    def at(self, threshold: float) -> OperatingPoint | None:
        """None where no answer of dev is as confident."""
        if self.answers.judged.confidence[0] < threshold:
            return None
        judged, items = self.answers.judged, self.answers.items
        return operating_point(judged, threshold, split=SPLIT, items=items)

    def as_dict(self) -> dict[str, Any]:
        return {
            "split": SPLIT,
            "n": len(self.answers.judged),
            "items": self.answers.items,
            "left_out": self.answers.left_out,
            "points": [point_table(point) for point in self.points],
        }


def point_table(point: OperatingPoint | None) -> dict[str, Any] | None:
    if point is None:
        return None
    return {
        "threshold": point.threshold,
        "coverage": point.coverage.as_dict(),
        "risk": point.risk.as_dict(),
    }


def count_items(run: Path) -> int:
    """Rows of dev that were answered when the run ended."""
    return len(read_items(run, SPLIT))
