"""What is said before several ranks train: where the training differs from that of one process."""

from __future__ import annotations

from regard.core.settings import Settings, to_table
from regard.core.toml import flatten
from regard.runs.recipe import Recipe
from regard.training.batch_loader import BatchLoader
from regard.training.parallel.rank_batches import uneven_batches
from regard.training.parallel.ranks import OneRank


def rank_remarks(recipe: Recipe, loader: BatchLoader, ranks: OneRank) -> list[str]:
    """Nothing for one process, but where it asks for what only ranks have."""
    train = recipe.train
    if ranks.size == 1:
        if train.parallel == "fsdp":
            return [
                'train: train.parallel = "fsdp" does nothing in one process; start several with '
                "torchrun --nproc-per-node N -m regard train"
            ]
        return []
    remarks = []
    plan = loader.plan(0)
    uneven, empty = uneven_batches(plan, accumulate=train.accumulate, size=ranks.size)
    if uneven:
        text = f"train: {ranks.size} ranks do not divide {uneven:,} of {len(plan):,} batches evenly"
        if empty:
            text += f"; in {empty:,} some rank has no row left, and computes one with weight 0"
        remarks.append(text)
    if dropouts := [*_dropouts("model", recipe.model), *_dropouts("adapt", recipe.adapt)]:
        remarks.append(
            f"train: {', '.join(dropouts)}: each rank draws its own, so the training differs from "
            "that of one process, or of another number of ranks, by more than rounding"
        )
    return remarks


def _dropouts(table: str, settings: Settings) -> list[str]:
    """Settings that drop something."""
    values = flatten(to_table(settings))
    return [
        f"{table}.{key} = {value:g}"
        for key, value in values.items()
        if key.endswith("dropout") and isinstance(value, float) and value > 0
    ]
