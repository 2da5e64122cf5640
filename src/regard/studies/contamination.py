"""Items of a study that stand in the training of some run: verdicts are over the others.

Every run is scored on the same items, so an item that one run was trained on is left out of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import row_groups
from regard.runs.items import read_items
from regard.runs.results import ContaminationRecord
from regard.studies.completed_runs import CompletedRun, seed_tables
from regard.studies.outcome import StudyContamination
from regard.studies.seed_spread import SeedSpread, seed_spread

Runs = dict[str, dict[int, CompletedRun]]
"By variant and seed."


def leave_out_overlap(completed: Runs, metric_name: str) -> tuple[Runs, list[StudyContamination]]:
    """The runs with their clean items alone, and what was left out, by split."""
    every = [run for runs in completed.values() for run in runs.values()]
    found: list[StudyContamination] = []
    for split in dict.fromkeys(one.split for run in every for one in run.results.contamination):
        kinds = _kinds_in_any_run([run.overlap[split] for run in every])
        first = next(
            one for run in every for one in run.results.contamination if one.split == split
        )
        estimates = {
            name: spread
            for name, runs in completed.items()
            if (spread := _spread(name, runs, f"{split}.{metric_name}")) is not None
        }
        overlapping = sum(kind is not None for kind in kinds)
        same_items = overlapping == first.overlapping
        record = ContaminationRecord(
            split=split,
            unit=first.unit,
            n=len(kinds),
            overlapping=overlapping,
            exact=sum(kind == "exact" for kind in kinds),
            agree=first.agree if same_items else None,
            flipped=first.flipped if same_items else None,
        )
        found.append(StudyContamination(record, estimates))
        clean = np.array([kind is None for kind in kinds])
        completed = {
            name: {seed: _select(run, split, clean) for seed, run in runs.items()}
            for name, runs in completed.items()
        }
    return completed, found


def _kinds_in_any_run(by_run: Sequence[Sequence[str | None]]) -> list[str | None]:
    """The overlap of each item in any run, exact before near; runs with other items do not
    count."""
    first = by_run[0]
    alike = [kinds for kinds in by_run if len(kinds) == len(first)]
    return [
        min((kind for kind in kinds if kind is not None), default=None)  # exact < near
        for kinds in zip(*alike, strict=True)
    ]


def _select(run: CompletedRun, split: str, clean: np.ndarray) -> CompletedRun:
    """The run with the clean items of a split alone; unchanged if it was scored on others."""
    if run.statistics[split].shape[-1] != len(clean):
        return run
    # Read again: statistics of ranked items are not those of all items, with some left out.
    rows = [
        row
        for row, is_clean in zip(read_items(run.record.folder, split), clean, strict=True)
        if is_clean
    ]
    statistics = run.metric.statistics(rows) if rows else run.statistics[split][:, :0]
    return replace(
        run,
        statistics={**run.statistics, split: statistics},
        groups={**run.groups, split: row_groups(rows)},
    )


def _spread(name: str, runs: Mapping[int, CompletedRun], score_key: str) -> SeedSpread | None:
    """The score over all items; None where it cannot be computed."""
    if not runs:
        return None
    metric = next(iter(runs.values())).metric
    score_name = score_key.partition(".")[2]
    with suppress(UserError):
        tables = seed_tables(name, runs, score_key)
        return seed_spread(
            tables,
            metric.score_function(score_name),
            bounds=metric.bounds(score_name),
            no_interval=metric.why_no_interval(score_name, tables.statistics[0]),
        )
    return None
