"""The loss of every variant on a study's probe sentences, averaged over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from regard.core.errors import UserError
from regard.runs.models.loaded_model import load_model
from regard.studies.outcome import Outcome, ProbeOutcome


def score_probes(outcome: Outcome, texts: Sequence[str], *, home: Path) -> None:
    """Fill in the probes of every variant from its finished runs."""
    if not texts:
        return
    for variant in outcome.variants:
        losses = []
        for run in variant.runs:
            if run.reason:
                continue
            try:
                losses.append(load_model(home / run.folder).loss(texts))
            except UserError as problem:
                outcome.remarks.append(f"{variant.name}, seed {run.seed}: no probes ({problem})")
        variant.probes = (
            [
                ProbeOutcome(
                    text=text,
                    loss=fmean(per_seed),
                    perplexity=fmean(math.exp(loss) for loss in per_seed),
                    per_seed=tuple(per_seed),
                )
                for text, per_seed in zip(texts, zip(*losses, strict=True), strict=True)
            ]
            if losses
            else []
        )
