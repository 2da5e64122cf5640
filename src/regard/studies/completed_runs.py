"""Completed runs of a study: finished and readable, with the statistics of every item."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.core.errors import UserError
from regard.core.toml import flatten
from regard.data.splits import SPLITS
from regard.evaluation.metrics.metric import Metric, Row, build_metric, row_groups
from regard.evaluation.statistics.item_groups import GroupNumbers
from regard.evaluation.statistics.seed_tables import SeedTables, Values
from regard.runs.archive.read_run import read_run
from regard.runs.archive.record import RunRecord
from regard.runs.items import read_items
from regard.runs.results import ResultsRecord
from regard.studies.engines.job import Job, JobResult

OWN_TABLES = ("train", "adapt")
INHERITED_TABLES = ("model", "tokenizer", "objective")
"Those of a recipe with `init_from` are settled when it is trained."


@dataclass(frozen=True)
class CompletedRun:
    """A finished run, completely read."""

    record: RunRecord
    results: ResultsRecord
    metric: Metric
    statistics: Mapping[str, Values]
    "(c, n): the per-item statistics of each split."
    groups: Mapping[str, GroupNumbers | None] = field(default_factory=dict)
    "The group of each item, by split."
    overlap: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    "How each item stands in training, by split: `exact`, `near` or None."

    @property
    def collapsed(self) -> str:
        """How it predicts one class for every row of dev, in words; empty if it does not."""
        health = self.results.health
        return health.predictions.collapsed if health and health.predictions else ""


CompletedRuns = Mapping[str, Mapping[int, CompletedRun]]
"By variant and seed."


def read_completed_run(result: JobResult) -> tuple[CompletedRun | None, str]:
    """The run of a job, or why it cannot be used."""
    if result.reason:
        return None, result.reason
    folder = result.job.folder
    try:
        record = read_run(folder)
        if record.results is None:
            return None, "it is not finished"
        if other := _another_recipe(result.job, record):
            return None, f"{folder} holds another run: {other}"
        if record.events.changed:  # they say whether the training diverged
            return None, f"{folder}/events.jsonl {record.events.changed}"
        metric = build_metric(record.results.metric)
        items = {split: read_items(folder, split) for split in SPLITS}
        statistics: dict[str, Values] = {
            split: _statistics(metric, items[split], folder, split) for split in SPLITS
        }
    except UserError as problem:  # damaged or of another schema: the other runs are still used
        return None, str(problem)
    groups: dict[str, GroupNumbers | None] = {
        split: row_groups(rows) for split, rows in items.items()
    }
    overlap: dict[str, list[str | None]] = {
        split: [row.get("overlap") for row in rows] for split, rows in items.items()
    }
    return CompletedRun(record, record.results, metric, statistics, groups, overlap), ""


def _another_recipe(job: Job, record: RunRecord) -> str:
    """Where the run in the job's folder was trained by other settings, as after folders were copied
    or swapped; empty if they are the job's."""
    try:
        stored = flatten(tomllib.loads(record.recipe))
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise UserError(
            f"{record.folder}/recipe.toml is damaged ({problem})", topic="run"
        ) from None
    inherits = job.recipe.init_from is not None
    for key, planned in flatten(job.recipe.to_table()).items():
        table = key.partition(".")[0]
        if table not in OWN_TABLES and (inherits or table not in INHERITED_TABLES):
            continue  # paths may have moved
        if stored.get(key, planned) != planned:
            return f"{key} is {stored[key]!r} there, and {planned!r} in the study"
    return ""


def _statistics(metric: Metric, rows: Sequence[Row], folder: Path, split: str) -> Values:
    try:
        return metric.statistics(rows)
    except (KeyError, TypeError, ValueError) as problem:
        raise UserError(
            f"{folder}/items/{split}.jsonl is damaged ({problem})", topic="run"
        ) from None


def describe_divergence(result: JobResult, run: CompletedRun | None) -> str:
    """How the training of a job diverged, in words; empty if it did not, or never began."""
    if run is not None:
        return run.record.events.diverged
    try:
        divergence = read_run(result.job.folder).events.divergence
    except UserError:  # no such run, or damaged
        return ""
    return divergence.text if divergence is not None else ""


def describe_collapse(runs: Mapping[int, CompletedRun]) -> str:
    """How a variant predicts one class for every row, with some or all of its seeds."""
    collapsed = [run.collapsed for run in runs.values() if run.collapsed]
    if not collapsed:
        return ""
    seeds = f" with {len(collapsed)} of {len(runs)} seeds" if len(runs) > 1 else ""
    first = collapsed[0]
    which = "its" if len(collapsed) == len(runs) else "such a seed's"
    return (
        f"predicts one class for every row{seeds}: on dev {first}; {which} accuracy is the "
        "frequency of that class"
    )


def seed_tables(name: str, runs: Mapping[int, CompletedRun], score_key: str) -> SeedTables:
    """The per-item statistics of every seed, with fingerprints of what was scored."""
    split, _, score_name = score_key.partition(".")
    metric = next(iter(runs.values())).metric
    which = "scored" if metric.needs_same_tokens(score_name) else "documents"
    return SeedTables(
        variant=name,
        seeds=tuple(runs),
        statistics=np.stack([run.statistics[split] for run in runs.values()]),
        splits=tuple(
            f"{split}:{run.results.items.get(split, {}).get(which, '')}" for run in runs.values()
        ),
        items=metric.items,
        groups=next(iter(runs.values())).groups.get(split),
    )
