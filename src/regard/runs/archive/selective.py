"""The answers of a finished run on dev, by confidence: on them a threshold is chosen.

Overlapping items are left out where the run's scores leave them out too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import build_metric, row_groups
from regard.evaluation.metrics.risk_coverage import JudgedAnswers, rank_by_confidence
from regard.runs.items import read_items
from regard.runs.results import read_results

SPLIT = "dev"


@dataclass(frozen=True)
class RunAnswers:
    """The judged answers of a run on dev."""

    judged: JudgedAnswers
    items: str
    "What they are, in the plural."
    left_out: int
    "Items that stand in training too, and are not among them."


def read_answers(run: Path) -> RunAnswers:
    """From items/dev.jsonl; refused where answers have no confidence, or no right and wrong."""
    results = read_results(run / "results.json")
    if results is None:
        raise UserError(f"{run.name} is not finished", topic="threshold")
    metric = build_metric(results.metric)
    rows = read_items(run, SPLIT)
    is_contaminated = any(one.split == SPLIT for one in results.contamination)
    clean = [row for row in rows if not (is_contaminated and row.get("overlap"))]
    if not clean:
        raise UserError(
            f"all rows of {SPLIT} of {run.name} stand in training too: none judges a threshold",
            topic="threshold",
        )
    if "confidence" not in clean[0]:
        raise UserError(
            f"the answers of {run.name} have no confidence, so there is no threshold to choose",
            topic="threshold",
        )
    correct = [right for row in clean if (right := metric.is_correct(row)) is not None]
    if len(correct) < len(clean):
        raise UserError(
            f"the answers of {run.name} are graded, not right or wrong, so they have no risk",
            topic="threshold",
        )
    judged = rank_by_confidence(
        [row["confidence"] for row in clean], correct, groups=row_groups(clean)
    )
    return RunAnswers(judged, metric.items, len(rows) - len(clean))
