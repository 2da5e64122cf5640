"""A run's figures in the terminal: the model, then what it has to beat."""

from __future__ import annotations

from typing import Any

from regard.cli.console import console


def print_figures(figures: dict[str, Any], *, title: str) -> None:
    """Perplexity by part, with interval and n; baselines below, remarks last."""
    from rich.table import Table

    rows = [row for row in figures["figures"] if row["metric"] == "perplexity"]
    per_byte = {
        (row["part"], row["of"]): row
        for row in figures["figures"]
        if row["metric"] == "perplexity_per_byte"
    }
    table = Table(box=None, padding=(0, 2, 0, 0), title=title, title_justify="left")
    for heading in ("part", "", "perplexity", "95 % interval", "per byte", "n"):
        table.add_column(heading, justify="left" if heading in ("part", "") else "right")
    for row in rows:
        is_model = row["of"] == "model"
        table.add_row(
            row["part"] if is_model else "",
            "model" if is_model else f"─ {row['of']}",
            f"{row['value']:,.1f}",
            _interval(row),
            f"{per_byte[row['part'], row['of']]['value']:.3f}",
            f"{row['n']:,} {row['items']}",
            style=None if is_model else "dim",
        )
    console().print()
    console().print(table)
    console().print()
    for remark in figures.get("remarks", ()):
        console().print(f"  {remark}", markup=False)


def _interval(row: dict[str, Any]) -> str:
    if row["low"] is None:
        return "none"
    return f"[{row['low']:,.1f}, {row['high']:,.1f}]".replace("[", r"\[", 1)
