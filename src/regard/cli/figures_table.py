"""A run's figures in the terminal: the model, what it has to beat, and whether it does."""

from __future__ import annotations

from typing import Any

from regard.cli.console import console

UNREACHED_SHOWN = 3
VERDICT_STYLES = {"better than": "green", "behind": "red"}


def print_figures(figures: dict[str, Any], *, title: str) -> None:
    """Perplexity by part with interval and n; a verdict for each baseline; remarks last."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    by_key = {(row["part"], row["of"], row["metric"]): row for row in figures["figures"]}
    verdicts = {(row["part"], row["against"]): row for row in figures["comparisons"]}
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading, justify in (
        ("part", "left"),
        ("", "left"),
        ("perplexity", "right"),
        ("95 % interval", "left"),
        ("per byte", "right"),
        ("n", "right"),
        ("the model is", "left"),
    ):
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for (part, of, metric), row in by_key.items():
        if metric != "perplexity":
            continue
        verdict = verdicts.get((part, of), {}).get("verdict", "")
        table.add_row(
            part if of == "model" else "",
            of if of == "model" else f"─ {of}",
            f"{row['value']:,.1f}",
            Text(_interval(row)),
            _per_byte(by_key.get((part, of, "perplexity_per_byte"))),
            f"{row['n']:,}",
            Text(
                verdict.removesuffix(" than").removesuffix(" from"), VERDICT_STYLES.get(verdict, "")
            ),
            style="bold" if of == "model" else "",
        )
    console().print(f"\n  {title}", markup=False)
    _print_audit(figures.get("audit"))
    console().print(Padding(table, (0, 0, 0, 2)))
    items = next((row["items"] for row in figures["figures"]), "items")
    console().print(
        f"  n counts {items}; verdicts rest on paired differences over the same {items}, for this "
        "trained model",
        style="dim",
        soft_wrap=True,
    )
    _print_health(figures.get("health"))
    for remark in figures.get("remarks", ()):
        console().print(f"  {remark}", markup=False, soft_wrap=True)


def _print_audit(audit: dict[str, Any] | None) -> None:
    """One line; a red one where the figures below mean nothing."""
    if audit is None:
        console().print("  audit  none: this run was made before there was one", style="dim")
        return
    if audit["verdict"] == "leak" or audit["broken"]:
        reasons = [audit["sentence"], *audit["broken"]]
        text = f"  INVALID  {'; '.join(reasons)}; what follows means nothing"
        console().print(text, style="bold red", markup=False, soft_wrap=True)
        return
    console().print(f"  audit  {audit['sentence']}", markup=False, soft_wrap=True)
    if audit["unreached"]:
        names = ", ".join(one["name"] for one in audit["unreached"][:UNREACHED_SHOWN])
        more = len(audit["unreached"]) - UNREACHED_SHOWN
        rest = f" and {more} more" if more > 0 else ""
        text = f"  reach  can learn nothing: {names}{rest}"
        console().print(text, style="dim", markup=False, soft_wrap=True)


def _print_health(health: dict[str, Any] | None) -> None:
    """A yellow line where what the model writes is unlike real text."""
    if health is not None and health["samples"]["flags"]:
        text = f"  {'; '.join(health['samples']['flags'])}"
        console().print(text, style="yellow", markup=False, soft_wrap=True)


def _per_byte(row: dict[str, Any] | None) -> str:
    return "–" if row is None else f"{row['value']:.3f}"


def _interval(row: dict[str, Any]) -> str:
    if row["low"] is None:
        return f"none: {row['no_interval']}"
    return f"[{row['low']:,.1f}, {row['high']:,.1f}]"
