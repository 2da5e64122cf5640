"""Items that a model gets wrong, and items on which two models differ.

Two models on the same items are compared by the items that exactly one has right (McNemar, 1947):

    p = P(a division of them at least as uneven, if both models were equally likely to be right)

This holds for these two trained models, not for the methods: another seed trains another model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import Metric, Row, build_metric
from regard.runs.items import read_items
from regard.runs.results import read_results

BOTH, ONLY_FIRST, ONLY_SECOND, NEITHER = "both", "only the first", "only the second", "neither"


@dataclass(frozen=True)
class ErrorItem:
    """One item with the predictions of each run."""

    item: int
    input: str
    truth: str
    predicted: tuple[str, ...]
    "One per run."
    is_correct: tuple[bool | None, ...]
    "None if the metric has no right or wrong, as for a translation."
    loss: tuple[float | None, ...]
    confidence: tuple[float | None, ...]


@dataclass(frozen=True)
class ItemErrors:
    """The items of one split of one or two runs."""

    runs: tuple[str, ...]
    split: str
    items: tuple[ErrorItem, ...]

    def __repr__(self) -> str:
        """`<ItemErrors runs/a and runs/b: dev, 500 items>`"""
        return f"<ItemErrors {' and '.join(self.runs)}: {self.split}, {len(self.items):,} items>"

    @property
    def confusion(self) -> dict[tuple[str, str], int]:
        """Counts of (truth, prediction) in the first run; empty if predictions are not labels."""
        pairs = Counter((item.truth, item.predicted[0]) for item in self.items)
        labels = {truth for truth, _ in pairs} | {predicted for _, predicted in pairs}
        return dict(pairs) if 1 < len(labels) <= MAX_LABELS else {}

    @property
    def agreement(self) -> dict[str, int]:
        """How many items both, one or neither of two runs has right."""
        counts = Counter(_who(item) for item in self.items if None not in item.is_correct)
        return {who: counts[who] for who in (BOTH, ONLY_FIRST, ONLY_SECOND, NEITHER)}

    @property
    def p(self) -> float | None:
        """McNemar's exact p-value; None if both runs are right on the same items."""
        from scipy.stats import binomtest  # a second of import time

        first, second = self.agreement[ONLY_FIRST], self.agreement[ONLY_SECOND]
        if not first + second:
            return None
        return float(binomtest(first, first + second).pvalue)

    def worst(self, limit: int) -> list[ErrorItem]:
        """Wrong items by loss, the highest first; all items if the metric has no right or wrong."""
        wrong = [item for item in self.items if item.is_correct[0] is not True]
        return sorted(wrong, key=lambda item: -(item.loss[0] or 0.0))[:limit]

    def differing(self, limit: int) -> list[ErrorItem]:
        """Items that exactly one run has right, or whose losses differ most."""
        if any(None in item.is_correct for item in self.items):
            return sorted(self.items, key=lambda item: -_loss_difference(item))[:limit]
        return [item for item in self.items if _who(item) in (ONLY_FIRST, ONLY_SECOND)][:limit]

    def as_dict(self) -> dict[str, Any]:
        table: dict[str, Any] = {
            "runs": list(self.runs),
            "split": self.split,
            "n": len(self.items),
            "items": [vars(item) for item in self.items],
        }
        if len(self.runs) == 2:
            return table | {"agreement": self.agreement, "p": self.p}
        confusion = [{"truth": t, "predicted": p, "n": n} for (t, p), n in self.confusion.items()]
        return table | {"confusion": confusion}


MAX_LABELS = 20
"Larger confusion matrices are not shown."


def read_errors(runs: Sequence[Path], *, split: str) -> ItemErrors:
    """The items of one run, or of two that were evaluated on the same items."""
    rows = [read_items(run, split) for run in runs]
    metric = _shared_metric(runs, split)
    items = tuple(_item(item_rows, metric) for item_rows in zip(*rows, strict=True))
    return ItemErrors(tuple(map(str, runs)), split, items)


def _shared_metric(runs: Sequence[Path], split: str) -> Metric:
    """The metric of the runs; an error if they were evaluated on different items."""
    documents, metrics = [], []
    for run in runs:
        results = read_results(run / "results.json")
        if results is None:
            raise UserError(
                f"{run} is not finished, so its items were not evaluated",
                topic="errors",
                hint=f"Finish it: regard train {run} --resume",
            )
        documents.append(results.items.get(split, {}).get("documents"))
        metrics.append(results.metric)
    if len(set(documents)) > 1:
        raise UserError(
            f"{runs[0]} and {runs[1]} were evaluated on different items of {split}",
            topic="errors",
            hint="Compare runs with the same data, split seed and evaluate.documents.",
        )
    return build_metric(metrics[0])


def _item(rows: Sequence[Row], metric: Metric) -> ErrorItem:
    first = rows[0]
    return ErrorItem(
        item=int(first["item"]),
        input=_input_text(first),
        truth=_truth(first),
        predicted=tuple(_text(row.get("predicted", "")) for row in rows),
        is_correct=tuple(metric.is_correct(row) for row in rows),
        loss=tuple(_loss(row) for row in rows),
        confidence=tuple(row.get("confidence") for row in rows),
    )


def _input_text(row: Row) -> str:
    record: Mapping[str, Any] = row.get("record", {})
    values = [value for key, value in record.items() if key not in TRUTHS]
    lists = [value for value in values if isinstance(value, list)]
    joined = [" ".join(each) for each in lists if all(isinstance(one, str) for one in each)]
    texts = [*(value for value in values if isinstance(value, str)), *joined]
    return " ¦ ".join(texts) or f"item {row['item']}"


TRUTHS = ("label", "answer", "answers", "target", "summary", "score", "tags")
"Columns with the truth, which is shown beside the input, not in it."


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _truth(row: Row) -> str:
    if "truths" in row:
        return " / ".join(map(str, row["truths"])) or "no answer"
    truth = row.get("truth", "")
    return " / ".join(map(str, truth)) if isinstance(truth, list) else _text(truth)


def _loss(row: Row) -> float | None:
    if "loss" in row:
        return float(row["loss"])
    if "nats" in row:
        return float(row["nats"]) / max(int(row["tokens"]), 1)
    return None


def _who(item: ErrorItem) -> str:
    first, second = item.is_correct[0], item.is_correct[1]
    if first:
        return BOTH if second else ONLY_FIRST
    return ONLY_SECOND if second else NEITHER


def _loss_difference(item: ErrorItem) -> float:
    first, second = item.loss[0], item.loss[1]
    return abs((first or 0.0) - (second or 0.0))
