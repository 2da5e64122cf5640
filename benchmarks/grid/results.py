"""What draws of the grid found: one draw's figures, and several draws as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.grid.points import NANOGPT, POINTS
from benchmarks.speed.timing import Ratio


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of the drawn points, without nanoGPT's."""
    drawn = [row for row in rows if row["name"] != NANOGPT.name]
    if not drawn:
        return {}
    worst = min(drawn, key=lambda row: row["value"])
    means = {
        key: math.exp(sum(math.log(row[key]) for row in drawn) / len(drawn))
        for key in Ratio._fields
    }
    return {"geometric_mean": means, "worst": worst["value"], "worst_point": worst["name"]}


def newest_draws(grids: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of the last day whose seeds begin with it: a point is drawn before it can be tuned."""
    dated = [
        grid
        for grid in grids
        if "geometric_mean" in grid and str(grid["seed"]).startswith(grid["date"].replace("-", ""))
    ]
    newest = max((grid["date"] for grid in dated), default="")
    return sorted((grid for grid in dated if grid["date"] == newest), key=lambda grid: grid["seed"])


def together(draws: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Draws of one machine as one; a point that was drawn twice counts as it was timed last."""
    points = {row["name"]: row for draw in draws for row in draw["points"]}
    seeds = [f"{draw['seed']} ({draw['drawn']} of {POINTS} points)" for draw in draws]
    return {
        **{key: draws[-1][key] for key in ("date", "machine", "peers")},
        "seed": " and ".join(seeds),
        "drawn": sum(name != NANOGPT.name for name in points),
        "points": list(points.values()),
        **summary(list(points.values())),
    }
