"""What a training needs of a node: memory, by formula until one of its variant has measured it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.core.errors import UserError
from regard.evaluation.formatting import memory_size
from regard.runs.preflight.memory import least_memory
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.studies.engines.ray.cluster import Node

BASE_BYTES = 512 << 20
"Of a worker that has imported everything and trains a tiny model."
MARGIN = 1.1
"Over the peak of another seed."


class Needs:
    """Learns from the runs that finish."""

    def __init__(self) -> None:
        self._peaks: dict[str, int] = {}

    def learn(self, variant: str, run: Path) -> None:
        try:
            peak = Run(run).results().cost.peak_memory_bytes
        except UserError:  # damaged, which the study reports
            return
        if peak is not None:
            self._peaks[variant] = max(peak, self._peaks.get(variant, 0))

    def memory(self, variant: str, recipe: Recipe, nodes: Sequence[Node]) -> int:
        """Bytes to reserve; no more than the largest node has."""
        peak = self._peaks.get(variant)
        needed = round(peak * MARGIN) if peak else BASE_BYTES + lower_bound(recipe)
        largest = max((node.memory for node in nodes), default=0.0)
        return min(needed, int(largest)) if largest else needed

    def does_not_fit(self, recipe: Recipe, nodes: Sequence[Node]) -> str:
        """Why no node can train it; empty if one can, or none is there yet."""
        largest = max((node.memory for node in nodes), default=0.0)
        needed = lower_bound(recipe)
        if not largest or needed <= largest:
            return ""
        return (
            f"it takes at least {memory_size(needed)} of memory, and the largest node has "
            f"{memory_size(largest)}"
        )


def lower_bound(recipe: Recipe) -> int:
    """Bytes by formula, without the vocabulary where the recipe does not say it."""
    positions = recipe.train.batch_tokens // max(1, recipe.train.accumulate)
    vocabulary = recipe.tokenizer.requested_pieces or 1
    return least_memory(recipe, vocabulary=vocabulary, positions=positions)


def gpus(recipe: Recipe) -> int:
    """One where the recipe asks for it."""
    return int(recipe.train.device.startswith("cuda"))
