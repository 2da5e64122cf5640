"""Where a model is wrong, and where two models differ: single items instead of a mean.

Of two models on the same items, only those count on which exactly one is right (McNemar, 1947):

    p = P(at least as uneven a split of them, if each were as likely to be the right one)

That speaks of these two trained models, not of the methods: another seed trains another model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import Metric, Row, build_metric
from regard.runs.archive.read_run import read_run
from regard.runs.items import read_items

BOTH, ONLY_FIRST, ONLY_SECOND, NEITHER = "both", "only the first", "only the second", "neither"


@dataclass(frozen=True)
class ErrorItem:
    """One item with what was answered to it."""

    item: int
    shown: str
    truth: str
    predicted: tuple[str, ...]
    "One answer a run."
    right: tuple[bool | None, ...]
    "None where being right or wrong is not the question, as for a translation."
    loss: tuple[float | None, ...]
    confidence: tuple[float | None, ...]


@dataclass(frozen=True)
class ItemErrors:
    """The items of one part of one or two runs."""

    runs: tuple[str, ...]
    part: str
    items: tuple[ErrorItem, ...]

    @property
    def confusion(self) -> dict[tuple[str, str], int]:
        """How often each truth was answered as what, by the first run; empty where answers are
        not labels."""
        pairs = Counter((item.truth, item.predicted[0]) for item in self.items)
        labels = {truth for truth, _ in pairs} | {answer for _, answer in pairs}
        return dict(pairs) if 1 < len(labels) <= MOST_LABELS else {}

    @property
    def agreement(self) -> dict[str, int]:
        """Of two runs: how many items both, one or neither has right."""
        found = Counter(_who(item) for item in self.items if None not in item.right)
        return {who: found[who] for who in (BOTH, ONLY_FIRST, ONLY_SECOND, NEITHER)}

    @property
    def p(self) -> float | None:
        """Of the split of the items on which exactly one is right; None where there is none."""
        from scipy.stats import binomtest  # a second of import time

        first, second = self.agreement[ONLY_FIRST], self.agreement[ONLY_SECOND]
        if not first + second:
            return None
        return float(binomtest(first, first + second).pvalue)

    def worst(self, most: int) -> list[ErrorItem]:
        """Wrong ones by loss, the worst first; where nothing is right or wrong, all by loss."""
        wrong = [item for item in self.items if item.right[0] is not True]
        return sorted(wrong, key=lambda item: -(item.loss[0] or 0.0))[:most]

    def differing(self, most: int) -> list[ErrorItem]:
        """Items that exactly one has right, or of which losses differ most."""
        if any(None in item.right for item in self.items):
            apart = sorted(self.items, key=lambda item: -_apart(item))
            return apart[:most]
        return [item for item in self.items if _who(item) in (ONLY_FIRST, ONLY_SECOND)][:most]

    def as_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "runs": list(self.runs),
            "part": self.part,
            "n": len(self.items),
            "items": [vars(item) for item in self.items],
        }
        if len(self.runs) == 2:
            return told | {"agreement": self.agreement, "p": self.p}
        confusion = [{"truth": t, "predicted": p, "n": n} for (t, p), n in self.confusion.items()]
        return told | {"confusion": confusion}


MOST_LABELS = 20
"A larger table of confusions is not read."


def errors_of(runs: Sequence[Path], *, part: str) -> ItemErrors:
    """The items of one run, or of two that were measured on the same."""
    rows = [read_items(run, part) for run in runs]
    measure = _measure_of_the_same(runs, part)
    return ItemErrors(
        tuple(map(str, runs)),
        part,
        tuple(_item(together, measure) for together in zip(*rows, strict=True)),
    )


def _measure_of_the_same(runs: Sequence[Path], part: str) -> Metric:
    """What the runs were judged by; refused where they were judged on other items."""
    told, measures = [], []
    for run in runs:
        figures = read_run(run).figures
        if figures is None:
            raise UserError(
                f"{run} is not finished, so its items were not measured",
                topic="errors",
                hint=f"Finish it: regard train {run} --resume",
            )
        told.append(figures.items.get(part, {}).get("documents"))
        measures.append(figures.measure)
    if len(set(told)) > 1:
        raise UserError(
            f"{runs[0]} and {runs[1]} were measured on other items of {part}",
            topic="errors",
            hint="Compare runs with the same data, split seed and evaluate.documents.",
        )
    return build_metric(measures[0])


def _item(together: Sequence[Row], measure: Metric) -> ErrorItem:
    first = together[0]
    return ErrorItem(
        item=int(first["item"]),
        shown=_shown(first),
        truth=_truth(first),
        predicted=tuple(_told(row.get("predicted", "")) for row in together),
        right=tuple(measure.is_correct(row) for row in together),
        loss=tuple(_loss(row) for row in together),
        confidence=tuple(row.get("confidence") for row in together),
    )


def _shown(row: Row) -> str:
    record: Mapping[str, Any] = row.get("record", {})
    told = [value for key, value in record.items() if isinstance(value, str) and key not in TRUTHS]
    return " ¦ ".join(told) or f"item {row['item']}"


TRUTHS = ("label", "answer", "answers", "target", "summary", "score")
"Roles that say what is right, which is shown beside and not in the question."


def _told(answer: object) -> str:
    return f"{answer:.4g}" if isinstance(answer, float) else str(answer)


def _truth(row: Row) -> str:
    if "truths" in row:
        return " / ".join(map(str, row["truths"])) or "no answer"
    truth = row.get("truth", "")
    return " / ".join(map(str, truth)) if isinstance(truth, list) else _told(truth)


def _loss(row: Row) -> float | None:
    if "loss" in row:
        return float(row["loss"])
    if "nats" in row:
        return float(row["nats"]) / max(int(row["tokens"]), 1)
    return None


def _who(item: ErrorItem) -> str:
    first, second = item.right[0], item.right[1]
    if first:
        return BOTH if second else ONLY_FIRST
    return ONLY_SECOND if second else NEITHER


def _apart(item: ErrorItem) -> float:
    first, second = item.loss[0], item.loss[1]
    return abs((first or 0.0) - (second or 0.0))
