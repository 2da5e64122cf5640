"""The runs of a study that can be used: finished, whole, with what was measured of each item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import Metric, build_metric
from regard.evaluation.statistics.seed_tables import SeedTables, Values
from regard.runs.archive.read_run import read_run
from regard.runs.archive.record import ResultsRecord, RunRecord
from regard.runs.items import read_items
from regard.studies.engines.local import JobResult

PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class CompletedRun:
    """A finished run that was read whole."""

    folder: Path
    record: RunRecord
    figures: ResultsRecord

    @property
    def measure(self) -> Metric:
        return build_metric(self.figures.measure)

    @property
    def collapsed(self) -> str:
        """How it answers one class for every row of dev, in words; nothing where it does not."""
        health = self.figures.health
        return health.predictions.collapsed if health and health.predictions else ""

    def columns(self, part: str) -> Values:
        """(c, n): what each item of a part adds to the figures."""
        try:
            return self.measure.statistics(read_items(self.folder, part))
        except (KeyError, TypeError, ValueError) as problem:
            raise UserError(
                f"{self.folder}/items/{part}.jsonl is damaged ({problem})", topic="run"
            ) from None


CompletedRuns = Mapping[str, Mapping[int, CompletedRun]]
"By variant and seed."


def read_completed_run(one: JobResult) -> tuple[CompletedRun | None, str]:
    """The run of a job, or why it cannot be used."""
    folder = one.job.folder
    if one.reason:
        return None, one.reason
    try:
        record = read_run(folder)
        if record.figures is None:
            return None, "it is not finished"
        found = CompletedRun(folder, record, record.figures)
        for part in PARTS:
            found.columns(part)
    except UserError as problem:  # damaged, or of another version: the others go on
        return None, str(problem)
    return found, ""


def collapse_of(runs: Mapping[int, CompletedRun]) -> str:
    """How a variant answers one class for every row, with some of its seeds or with all."""
    bad = {seed: run.collapsed for seed, run in runs.items() if run.collapsed}
    if not bad:
        return ""
    seeds = f" with {len(bad)} of {len(runs)} seeds" if len(runs) > 1 else ""
    first = next(iter(bad.values()))
    return f"answers one class for every row{seeds}: on dev {first}"


def measured_of(name: str, runs: Mapping[int, CompletedRun], figure: str) -> SeedTables:
    """Every seed's table of items."""
    part, _, metric = figure.partition(".")
    measure = next(iter(runs.values())).measure
    which = "told" if measure.needs_same_tokens(metric) else "documents"
    return SeedTables(
        variant=name,
        seeds=tuple(runs),
        statistics=np.stack([run.columns(part) for run in runs.values()]),
        splits=tuple(
            f"{part}:{run.figures.items.get(part, {}).get(which, '')}" for run in runs.values()
        ),
        items=measure.items,
    )
