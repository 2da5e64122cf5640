"""How often trainings diverge: a result of its own, beside the scores of those that did not.

    2 of 10 seeds against 0 of 10     p = 0.47, Fisher's exact test (1922)

A mean over runs of which some diverged is decided by how many of them happened to: no t interval
holds for it (docs/studies/calibration.md). So the numbers of diverged runs are compared, and no
mean. Five seeds of which none diverged
do not rule out that 45 % would, nor ten that 26 % would: 1 − 0.05^(1/S).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb


@dataclass(frozen=True)
class DivergenceCount:
    """Runs that diverged, of those whose training ended."""

    diverged: int
    seeds: int

    def __post_init__(self) -> None:
        if not 0 <= self.diverged <= self.seeds:
            raise ValueError(f"{self.diverged} of {self.seeds} runs cannot have diverged")

    def __str__(self) -> str:
        return f"{self.diverged} of {self.seeds} seeds"


def fisher_exact(a: DivergenceCount, b: DivergenceCount) -> float:
    """Two-sided p that both diverge equally often: all tables that are no more likely than this."""
    total = a.diverged + b.diverged

    def tables(diverged: int) -> int:
        """Of `comb(seeds, total)`, in how many `diverged` of the runs are of a."""
        return comb(a.seeds, diverged) * comb(b.seeds, total - diverged)

    observed = tables(a.diverged)
    counts = (tables(k) for k in range(max(0, total - b.seeds), min(a.seeds, total) + 1))
    as_unlikely = sum(count for count in counts if count <= observed)
    return as_unlikely / comb(a.seeds + b.seeds, total)
