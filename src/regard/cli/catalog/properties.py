"""What a part declares about itself, in words, for `regard ls` and the catalogue page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regard.core.catalog import Entry

Properties = Mapping[str, Any]

MAIN: dict[str, tuple[str, Callable[[Properties], str]]] = {
    "attention": ("cost", lambda p: str(p["cost"])),
    "mask": ("needs", lambda p: str(p["needs"])),
    "position": ("acts", lambda p: str(p["acts"])),
    "family": ("predicts", lambda p: str(p["predicts"])),
    "objective": ("for", lambda p: ", ".join(p["families"])),
    "tokenizer": ("keeps", lambda p: "all text" if p["keeps"] == "text" else "the words"),
    "adapter": ("trains", lambda p: str(p["trains"])),
    "corpus": ("text", lambda p: "generated" if p["generated"] else "real"),
}
"For each sort the one property that people choose by: its heading, and how it is said."


def main_heading(sort: str) -> str:
    return "measured by" if sort == "task" else MAIN[sort][0] if sort in MAIN else ""


def main_property(entry: Entry) -> str:
    """Empty where a part of somebody's own does not say."""
    if entry.catalog == "task":
        return str(getattr(entry.part, "metrics", ("",))[0]).replace("_", " ")
    if entry.catalog not in MAIN:
        return ""
    try:
        return MAIN[entry.catalog][1](entry.properties)
    except (KeyError, TypeError):
        return ""


def further(entry: Entry) -> str:
    """The other properties, on one line."""
    properties = entry.properties
    if entry.catalog == "attention" and "masks" in properties:
        return " · ".join(_traits(properties))
    if entry.catalog == "position" and "reach" in properties:
        return f"reaches {properties['reach']}"
    if entry.catalog == "family" and "objectives" in properties:
        return f"learns {', '.join(properties['objectives'])}"
    if entry.catalog == "task" and "families" in properties:
        from regard.tasks.advice import advise

        advice, families = advise(entry.name), ", ".join(properties["families"])
        return (
            f"for {families}: {advice.why}"
            if families == advice.family
            else f"for {families} · {advice}"
        )
    if entry.catalog == "corpus" and "columns" in properties:
        return f"rows of {', '.join(properties['columns'])}"
    return ""


def broken(entry: Entry) -> str:
    """What is wrong with a part that is wrong on purpose; empty for all others."""
    why = str(entry.properties.get("broken", ""))
    return f"broken: {why}; fails {', '.join(entry.properties['fails'])}" if why else ""


def shown_source(entry: Entry) -> str:
    """Where to read it; a file of the person's own from where they stand."""
    file, _, line = entry.source.rpartition(":")
    path, here = Path(file), Path.cwd()
    return f"{path.relative_to(here)}:{line}" if path.is_relative_to(here) else entry.source


def _traits(properties: Properties) -> list[str]:
    """What it can do in the plain cases, then what it cannot of the rest."""
    words = [name for name in ("causal", "cacheable", "cross") if properties[name]]
    masks, relative_positions = properties["masks"], properties["relative_positions"]
    words.append("any mask" if masks == "any" else f"masks {', '.join(masks)}")
    if not relative_positions:
        words.append("absolute positions only")
    words += [
        f"no {sort}"
        for sort in ("rotation", "bias")
        if relative_positions and sort not in relative_positions
    ]
    if len(properties["projections"]) == 1:
        words.append("no shared projections")
    if not properties["grouped_heads"]:
        words.append("no grouped heads")
    return words
