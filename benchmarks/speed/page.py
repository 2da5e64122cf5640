"""docs/performance.md and its chart, from the rows of one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

INTRODUCTION = """# Performance

Written by `make bench`. All values in the tables come from one run; the remarks also cite others.
Speed is a ratio of two times measured alternately in one process tree (median over rounds;
in brackets the second lowest and second highest round), because these machines drift by more than
most differences. Goals were set before any measurement. A goal is reached if the median reaches it;
where the brackets contain the goal, another run may miss it.

{machine}

![ratios relative to their goals](performance.png)
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


def write_page(results: dict[str, Any], folder: Path, *, remarks: str) -> None:
    """`remarks` are notes on the rows, written below the tables."""
    machine = results["machine"]
    facts = (
        f"{results['date']}, {machine['cores']} cores of {machine['cpu']} with "
        f"{machine['simd']}, CPU kernels: {machine['kernels']}, torch "
        f"{machine['torch']}, {machine['threads']} threads, load before the run "
        f"{machine['load']:.1f}."
    )
    text = INTRODUCTION.format(machine=facts)
    for group in dict.fromkeys(row["group"] for row in results["rows"]):
        text += "\n".join(_table(group, results["rows"]))
    for missing in results["missing"]:
        text += f"\nNot measured: {missing}.\n"
    text += remarks + NOTES
    (folder / "performance.md").write_text(text, encoding="utf-8")
    (folder / "performance.png").write_bytes(_chart(results["rows"]))


def _table(group: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"\n## {group[0].upper()}{group[1:]}\n"]
    lines += ["| work | measured | ratio | goal | reached |", "|---|---|---|---|---|"]
    for row in rows:
        if row["group"] != group:
            continue
        values = "<br>".join(
            f"{name} {_number(value)} {row['unit']}" for name, value in row["medians"].items()
        )
        sign = "≥" if row["better"] == "higher" else "≤"
        spread = f" [{row['low']:.2f}, {row['high']:.2f}]" if row["low"] < row["high"] else ""
        notes = "; ".join(filter(None, [row["same_work"], *row["notes"]]))
        lines.append(
            f"| {row['work']}{f' <br><sub>{notes}</sub>' if notes else ''} | {values} | "
            f"**{row['ratio']:.2f}**{spread}<br><sub>{row['ratio_of']}</sub> | "
            f"{sign} {row['goal']:.3g} | {'yes' if row['reached'] else '**no**'} |"
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
