"""docs/performance.md and its chart, from the rows of one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from benchmarks.as_typed.row import GROUP
from benchmarks.grid.picture import write_picture
from benchmarks.speed.other_load import MAX_FRACTION
from benchmarks.speed.timing import OURS

INTRODUCTION = """# Performance

Written by `make bench`. Commands and parts are timed in the environment of a user's own shell: no
variable for threads, memory or kernels is set, and what a peer's user may set has a column of its
own. What was timed otherwise stands at the end. Speed is a ratio of two times measured alternately
(median over rounds; in brackets the range over rounds, without the lowest and the highest where
there are more than three), because these machines drift by more than most differences. Goals were
set before any measurement. A goal is reached if the median reaches it; where the brackets contain
the goal, another run may miss it.
"""
AS_TYPED = """
## As typed

Wall time from the command to its last line, each in a fresh process with empty caches. A peer is
typed as its documentation says, and as those type it who know the machine: memory kept by malloc's
variables, compiled, another number of threads, larger batches. The goal is against the faster one.

{machine}
"""
GRID = """
## A step over a grid of shapes

Widths of 32 to 512, 256 to 16,384 tokens a step, vocabularies of 65, 8k and 50k, contexts of 64 to
1,024: {drawn} points, drawn by seed {seed}. The time of the best
peer over ours, step by step: geometric mean **{mean:.2f}** [{low:.2f}, {high:.2f}]
(goal ≥ {mean_goal}), worst point **{worst:.2f}** (goal ≥ {worst_goal}): {worst_point}.
Peers: {peers}.
A turn in which other processes took more than {others:.0%} of the cores was taken again.

{date}, {machine}

![ratio to the best peer by width and tokens](performance-grid.png)
"""
GRID_GOALS = {"mean_goal": 1.3, "worst_goal": 0.95}
PARTS = """
## Parts, each by itself

In processes that stay alive.

![ratios relative to their goals](performance.png)
"""
OLDER = """
## Older results, in another environment

Timed with OMP_NUM_THREADS set to the number of cores, and before the commands limited how long
waiting threads spin; not repeated since. No claim rests on them.
"""
NOTES = """
## How to read it

- **plain GPT** is the same decoder as commonly written (`benchmarks/speed/peers.py`): torch
  modules, SDPA, all logits at once, as in nanoGPT. *Compiled* is the same under `torch.compile`.
  *transformers* and *x-transformers* are the packages. Every step is forward, backward, gradient
  clipping and fused AdamW.
- Each contestant runs in a separate process, in turn with the others; a training turn is three
  steps.
- Before timing, each row checks that all sides do the same work: parameters, tokens, and the loss
  or hidden states from the same weights.
- The fraction of the matmul peak counts the FLOPs of the formula (6 per parameter and token, plus
  the causal pairs of attention), not those executed.
- Peak memory is that of a separate process, above what it held before the model was built.
"""


def write_page(
    results: Sequence[dict[str, Any]],
    folder: Path,
    *,
    remarks: str,
    older_remarks: str = "",
    grid: dict[str, Any] | None = None,
) -> None:
    """`results` of one run or of several, each with its date and machine; `remarks` are notes on
    the rows, written below the tables, those on older rows below these; `grid` the results of
    `benchmarks.grid`, if it ran."""
    text = INTRODUCTION
    typed = [run for run in results if _groups(run) == [GROUP]]
    for run in typed:
        text += "\n".join((AS_TYPED.format(machine=_machine(run)), *_typed_table(run["rows"]), ""))
    if grid is not None:
        text += _grid(grid, folder)
    parts = [run for run in results if run not in typed]
    # Results from before commands as typed were timed do not say so.
    own = [run for run in parts if run.get("in_user_environment", False)]
    repeated = {row["work"] for run in own for row in run["rows"]}
    older = [
        {**run, "rows": [row for row in run["rows"] if row["work"] not in repeated]}
        for run in parts
        if run not in own
    ]
    text += _parts(own, PARTS) + _missing(results) + remarks
    text += _parts(older, OLDER) + (older_remarks if older else "")
    if own:
        (folder / "performance.png").write_bytes(_chart([r for run in own for r in run["rows"]]))
    (folder / "performance.md").write_text(text + NOTES, encoding="utf-8")


def _parts(runs: Sequence[dict[str, Any]], heading: str) -> str:
    text = heading if runs else ""
    for run in runs:
        text += f"\n{_machine(run)}\n"
        for group in _groups(run):
            text += "\n".join(_table(group, run["rows"]))
    return text


def _missing(results: Sequence[dict[str, Any]]) -> str:
    missing = [reason for run in results for reason in run["missing"]]
    return "".join(f"\nNot measured: {reason}.\n" for reason in missing)


def _groups(run: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["group"] for row in run["rows"]))


def _machine(results: dict[str, Any]) -> str:
    load = f", load before the run {results['machine']['load']:.1f}"
    return f"{results['date']}, {_hardware(results['machine'])}{load}."


def _hardware(machine: dict[str, Any]) -> str:
    priority = ", at real-time priority" if machine.get("real_time") else ""
    return (
        f"{machine['cores']} cores of {machine['cpu']} with {machine['simd']}, CPU kernels: "
        f"{machine['kernels']}, torch {machine['torch']}{priority}"
    )


def _typed_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| typed | regard | peer, as documented | as who knows | ratio | goal | reached |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        values = {name: f"{_number(value)} {row['unit']}" for name, value in row["medians"].items()}
        ours, documented = values.pop(OURS), values.pop(row["documented"])
        known = "<br>".join(
            f"{name.removeprefix(row['documented']).lstrip(', ')} {value}"
            for name, value in values.items()
        )
        notes = "; ".join(filter(None, [row["same_work"], *row["notes"]]))
        yield (
            f"| {row['work']}<br><sub>`{row['typed'][OURS]}`; {notes}</sub> | {ours} | "
            f"{row['documented']} {documented} | {known} | {_ratio(row)} | "
            f"≥ {row['goal']:.3g} | {'yes' if row['reached'] else '**no**'} |"
        )


def _ratio(row: dict[str, Any]) -> str:
    spread = f" [{row['low']:.2f}, {row['high']:.2f}]" if row["low"] < row["high"] else ""
    return f"**{row['ratio']:.2f}**{spread}<br><sub>{row['ratio_of']}</sub>"


def _grid(grid: dict[str, Any], folder: Path) -> str:
    write_picture(grid, folder / "performance-grid.png")
    mean = grid["geometric_mean"]
    return GRID.format(
        drawn=grid["drawn"],
        seed=grid["seed"],
        date=grid["date"],
        machine=f"{_hardware(grid['machine'])}.",
        peers=", ".join(grid["peers"]),
        others=MAX_FRACTION,
        **GRID_GOALS,
        mean=mean["value"],
        low=mean["low"],
        high=mean["high"],
        worst=grid["worst"],
        worst_point=grid["worst_point"],
    )


def _table(group: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"\n### {group[0].upper()}{group[1:]}\n"]
    lines += ["| work | measured | ratio | goal | reached |", "|---|---|---|---|---|"]
    for row in rows:
        if row["group"] != group:
            continue
        values = "<br>".join(
            f"{name} {_number(value)} {row['unit']}" for name, value in row["medians"].items()
        )
        sign = "≥" if row["better"] == "higher" else "≤"
        notes = "; ".join(filter(None, [row["same_work"], *row["notes"]]))
        lines.append(
            f"| {row['work']}{f' <br><sub>{notes}</sub>' if notes else ''} | {values} | "
            f"{_ratio(row)} | {sign} {row['goal']:.3g} | {'yes' if row['reached'] else '**no**'} |"
        )
    return [*lines, ""]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _chart(rows: Sequence[dict[str, Any]]) -> bytes:
    """Each ratio relative to its goal; right of the line the goal is reached."""
    values = [
        {
            "work": row["work"],
            "past": row["ratio"] / row["goal"]
            if row["better"] == "higher"
            else row["goal"] / row["ratio"],
            "label": f"{row['ratio']:.2f} (goal {row['goal']:.3g})",
            "reached": "reached" if row["reached"] else "not reached",
        }
        for row in rows
    ]
    ground = alt.Chart(alt.InlineData(values)).encode(
        y=alt.Y("work:N", sort=None, title=None, axis=alt.Axis(labelLimit=520)),
        x=alt.X("past:Q", title="ratio ÷ goal", scale=alt.Scale(type="log")),
    )
    colours = alt.Scale(domain=["reached", "not reached"], range=["#2a9d8f", "#e76f51"])
    points = ground.mark_point(filled=True, size=90).encode(
        color=alt.Color("reached:N", title=None, scale=colours)
    )
    # Labels point away from the rule, so that it does not cross them.
    labels = [
        ground.transform_filter(alt.datum.reached == reached)
        .mark_text(align=align, dx=dx)
        .encode(text="label:N")
        for reached, align, dx in (("reached", "left", 8), ("not reached", "right", -8))
    ]
    line = alt.Chart(alt.InlineData([{"goal": 1}])).mark_rule(strokeDash=[4, 4]).encode(x="goal:Q")
    chart = alt.layer(line, points, *labels).properties(width=420, height=22 * len(values))
    return vl_convert.vegalite_to_png(chart.to_dict(), scale=1.25)
