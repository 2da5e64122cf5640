"""The runs of a study that can be used: finished, whole, with what was measured of each item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.errors import UserError
from regard.metrics.measured import Measured
from regard.study.jobs import Ended
from regard.study.record import Figures, RunRecord
from regard.study.runs import read_run
from regard.study.spread import columns_of

PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class Usable:
    """A finished run that was read whole."""

    folder: Path
    record: RunRecord
    figures: Figures


Usables = Mapping[str, Mapping[int, Usable]]
"By variant and seed."


def read_usable(one: Ended) -> tuple[Usable | None, str]:
    """The run of a job, or why it cannot be used."""
    folder = one.job.folder
    if one.reason:
        return None, one.reason
    try:
        record = read_run(folder)
        for part in PARTS:
            columns_of(str(folder), part)
    except UserError as problem:  # damaged, or of another version: the others go on
        return None, str(problem)
    if record.figures is None:
        return None, "it is not finished"
    return Usable(folder, record, record.figures), ""


def measured_of(name: str, runs: Mapping[int, Usable], figure: str) -> Measured:
    """Every seed's table of items."""
    part, _, metric = figure.partition(".")
    which = "told" if metric in ("perplexity", "loss_per_document") else "documents"
    return Measured(
        variant=name,
        seeds=tuple(runs),
        columns=np.stack([columns_of(str(run.folder), part) for run in runs.values()]),
        parts=tuple(
            f"{part}:{run.figures.items.get(part, {}).get(which, '')}" for run in runs.values()
        ),
    )
