"""A run's figures in the terminal: the model, what it has to beat, and whether it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.cli.console import console
from regard.cli.training.display import format_score

if TYPE_CHECKING:
    from rich.table import Table

MAX_UNUSED_SHOWN = 3
MOST_BESIDE = 2
"Other metrics that stand beside the main one."
NAMES_AT_LEAST = 16
INDENT = 2
SHORT = {
    "better than": "better",
    "not distinguishable from": "not distinguishable",
    "on too few to be told from": "too few to tell",
    "tuned on these rows, and not judged against": "tuned here",
}
VERDICT_STYLES = {"better": "green", "behind": "red"}


def print_results(figures: dict[str, Any], *, title: str) -> None:
    """The main metric by part with interval and n; a verdict for each baseline; remarks last."""
    from rich.measure import Measurement
    from rich.padding import Padding

    main, *others = dict.fromkeys(row["metric"] for row in figures["estimates"])
    beside = _beside(main, others)
    table = _table(figures, main, beside)
    # Names go on below, and other metrics stay away, before a figure is cut: it would be another.
    while beside and Measurement.get(console(), console().options, table).minimum > _room():
        table = _table(figures, main, beside := beside[:-1])
    console().print(f"\n  {title}", markup=False)
    _print_audit(figures.get("audit"))
    console().print(Padding(table, (0, 0, 0, INDENT)))
    items = next((row["items"] for row in figures["estimates"]), "items")
    console().print(
        f"  n counts {items}; verdicts rest on paired differences over the same {items}, for this "
        "trained model",
        style="dim",
        soft_wrap=True,
    )
    _print_own_counts(figures["estimates"], main, others)
    _print_signature(figures["estimates"], main)
    _print_health(figures.get("health"))
    for remark in figures.get("remarks", ()):
        console().print(f"  {remark}", markup=False, soft_wrap=True)


def _table(figures: dict[str, Any], main: str, beside: list[str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    by_key = {(row["split"], row["of"], row["metric"]): row for row in figures["estimates"]}
    verdicts = {(row["split"], row["against"]): row for row in figures["comparisons"]}
    rows = [
        (
            part if of == "model" else "",
            of if of == "model" else f"─ {of}",
            format_score(row["value"]),
            _interval(row),
            *(_other(by_key.get((part, of, name))) for name in beside),
            f"{row['n']:,}",
            _bare(verdicts.get((part, of), {}).get("verdict", "")),
        )
        for (part, of, metric), row in by_key.items()
        if metric == main
    ]
    others = [_words(metric) for metric in beside]
    headings = ["part", "", _words(main), "95 % interval", *others, "n", "the model is"]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading, cells in zip(headings, zip(*rows, strict=True), strict=True):
        whole = max(len(cell) for cell in (heading, *cells))
        to_the_right = heading in {_words(main), *others, "n"}
        table.add_column(
            heading,
            justify="right" if to_the_right else "left",
            min_width=min(whole, NAMES_AT_LEAST) if heading == "" else whole,
        )
    for *cells, verdict in rows:
        said = Text(verdict, VERDICT_STYLES.get(verdict, ""))
        style = "bold" if cells[1] == "model" else ""
        table.add_row(*map(Text, cells), said, style=style)
    return table


def _bare(verdict: str) -> str:
    """`better` for `better than`: what it is better than begins the line."""
    return SHORT.get(verdict, verdict)


def _print_own_counts(figures: list[dict[str, Any]], main: str, others: list[str]) -> None:
    """Figures over some of the last part's items only, such as people who were read of."""
    last = figures[-1]["split"]
    ours = {row["metric"]: row for row in figures if row["split"] == last and row["of"] == "model"}
    for name in others:
        if name in ours and main in ours and ours[name]["n"] != ours[main]["n"]:
            row = ours[name]
            text = f"{format_score(row['value'])} {_interval(row)}, n = {row['n']:,}"
            console().print(f"  {last}, {_words(name)}: {text}", markup=False, soft_wrap=True)


def _print_signature(figures: list[dict[str, Any]], main: str) -> None:
    """How the last part's figure was measured, in a form that can be cited."""
    told = [row for row in figures if row["of"] == "model" and row["metric"] == main]
    if told and told[-1].get("signature"):
        console().print(f"  signature  {told[-1]['signature']}", style="dim", soft_wrap=True)


def _room() -> int:
    return console().width - INDENT


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
    if audit["unused_parameters"]:
        names = ", ".join(one["name"] for one in audit["unused_parameters"][:MAX_UNUSED_SHOWN])
        more = len(audit["unused_parameters"]) - MAX_UNUSED_SHOWN
        rest = f" and {more} more" if more > 0 else ""
        text = f"  reach  can learn nothing: {names}{rest}"
        console().print(text, style="dim", markup=False, soft_wrap=True)


def _print_health(health: dict[str, Any] | None) -> None:
    """What is wrong with what the model writes; of its answers the remarks tell the rest."""
    health = health or {}
    if one_class := (health.get("predictions") or {}).get("collapsed"):
        text = f"  COLLAPSED  {one_class}: its figures are those of that answer"
        console().print(text, style="bold red", markup=False, soft_wrap=True)
    if flags := (health.get("samples") or {}).get("flags"):
        console().print(f"  {'; '.join(flags)}", style="yellow", markup=False, soft_wrap=True)


def _beside(main: str, others: list[str]) -> list[str]:
    """What else is worth a column: of a language model the figure per byte, of a task the rest."""
    if main == "perplexity":
        return ["perplexity_per_byte"]
    return others[:MOST_BESIDE]


def _words(metric: str) -> str:
    return "per byte" if metric == "perplexity_per_byte" else metric.replace("_", " ")


def _other(row: dict[str, Any] | None) -> str:
    return "–" if row is None else f"{row['value']:.3f}"


def _interval(row: dict[str, Any]) -> str:
    if row["low"] is None:
        return f"none: {row['no_interval']}"
    return f"[{format_score(row['low'])}, {format_score(row['high'])}]"
