"""docs/performance.md and its chart, from the rows of one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

WORDS = """# How fast it is, and beside whom

Written by `make bench`; every figure in its tables is of that one run, the remarks below them tell
of others too. Speed is told as a ratio of two times measured in turn in one process tree (medians
over rounds; in brackets the second lowest and the second highest round), because these machines
drift by more than most of what is compared. Goals were set before anything was measured; reached
means that the median reaches it, and where the brackets hold the goal another run may not.

{machine}

![each ratio beside its goal](performance.png)
"""
READING = """
## How to read it

- **plain GPT** is the same decoder written as people write it first (`benchmarks/speed/peers.py`):
  torch's modules, fused attention, all scores of the output layer at once; nanoGPT is built so.
  Compiled, it is what `torch.compile` makes of it. *transformers* and *x-transformers* come from
  their packages. Each takes a step as ours does: forward, backward, clipping, fused AdamW.
- Each runs in a process of its own, in turn with the others; a training's turn is three steps.
- Before a row is timed it is checked that all sides do the same work: parameters, tokens, and the
  loss or hidden states from the same weights.
- The share of the matmul peak counts the operations that the formula asks for (6 for each
  parameter and token, and the causal pairs of attention), not those that were made.
- Peak memory is of a process of its own, above what it held before the model was built.
"""


def write_page(results: dict[str, Any], folder: Path, *, remarks: str) -> None:
    """`remarks` are what people found out about the rows; they stand below the table."""
    machine = results["machine"]
    facts = (
        f"{results['date']}, {machine['cores']} cores of {machine['processor']} with "
        f"{machine['vectors']}, kernels of our own: {machine['kernels']}, torch "
        f"{machine['torch']}, {machine['threads']} threads, load before the run "
        f"{machine['load']:.1f}."
    )
    text = WORDS.format(machine=facts)
    for group in dict.fromkeys(row["group"] for row in results["rows"]):
        text += "\n".join(_table(group, results["rows"]))
    for missing in results["missing"]:
        text += f"\nNot measured: {missing}.\n"
    text += remarks + READING
    (folder / "performance.md").write_text(text, encoding="utf-8")
    (folder / "performance.png").write_bytes(_chart(results["rows"]))


def _table(group: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"\n## {group[0].upper()}{group[1:]}\n"]
    lines += ["| work | figures | ratio | goal | reached |", "|---|---|---|---|---|"]
    for row in rows:
        if row["group"] != group:
            continue
        figures = "<br>".join(
            f"{name} {_number(value)} {row['unit']}" for name, value in row["figures"].items()
        )
        sign = "≥" if row["better"] == "higher" else "≤"
        spread = f" [{row['low']:.2f}, {row['high']:.2f}]" if row["low"] < row["high"] else ""
        beside = "; ".join(filter(None, [row["same_work"], *row["notes"]]))
        lines.append(
            f"| {row['work']}{f' <br><sub>{beside}</sub>' if beside else ''} | {figures} | "
            f"**{row['ratio']:.2f}**{spread}<br><sub>{row['ratio_of']}</sub> | "
            f"{sign} {row['goal']:.3g} | {'yes' if row['reached'] else '**no**'} |"
        )
    return [*lines, ""]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _chart(rows: Sequence[dict[str, Any]]) -> bytes:
    """How far each row is past its goal: right of the line it is reached."""
    values = [
        {
            "work": row["work"],
            "past": row["ratio"] / row["goal"]
            if row["better"] == "higher"
            else row["goal"] / row["ratio"],
            "told": f"{row['ratio']:.2f} (goal {row['goal']:.3g})",
            "reached": "reached" if row["reached"] else "not reached",
        }
        for row in rows
    ]
    ground = alt.Chart(alt.InlineData(values)).encode(
        y=alt.Y("work:N", sort=None, title=None, axis=alt.Axis(labelLimit=520)),
        x=alt.X("past:Q", title="past its goal, times", scale=alt.Scale(type="log")),
    )
    colours = alt.Scale(domain=["reached", "not reached"], range=["#2a9d8f", "#e76f51"])
    points = ground.mark_point(filled=True, size=90).encode(
        color=alt.Color("reached:N", title=None, scale=colours)
    )
    # Away from the line, so that it does not cross the words.
    names = [
        ground.transform_filter(alt.datum.reached == reached)
        .mark_text(align=align, dx=dx)
        .encode(text="told:N")
        for reached, align, dx in (("reached", "left", 8), ("not reached", "right", -8))
    ]
    line = alt.Chart(alt.InlineData([{"goal": 1}])).mark_rule(strokeDash=[4, 4]).encode(x="goal:Q")
    chart = alt.layer(line, points, *names).properties(width=420, height=22 * len(values))
    return vl_convert.vegalite_to_png(chart.to_dict(), scale=1.25)
