"""Declared properties of catalogue entries, as text, for `regard ls` and the catalogue page."""

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
    "objective": ("for families", lambda p: ", ".join(p["families"])),
    "tokenizer": ("keeps", lambda p: "all text" if p["keeps"] == "text" else "the words"),
    "adapter": ("trains", lambda p: str(p["trains"])),
    "corpus": ("text", lambda p: "generated" if p["generated"] else "real"),
}
"By catalogue, the property that decides the choice: its heading and its text."
SCORES = {"task": "metric", "metric": "main score"}
"Headings of the catalogues whose parts declare `score_names`: the first one decides the choice."


def main_heading(catalog: str) -> str:
    return MAIN[catalog][0] if catalog in MAIN else SCORES.get(catalog, "")


def main_property(entry: Entry) -> str:
    """Empty if a user's own part does not declare it."""
    if entry.catalog in SCORES:
        return str(getattr(entry.part, "score_names", ("",))[0]).replace("_", " ")
    if entry.catalog not in MAIN:
        return ""
    try:
        return MAIN[entry.catalog][1](entry.properties)
    except (KeyError, TypeError):
        return ""


def other_properties(entry: Entry) -> str:
    """The other properties, on one line."""
    properties = entry.properties
    if entry.catalog == "attention" and "masks" in properties:
        return " · ".join(_traits(properties))
    if entry.catalog == "position" and "reach" in properties:
        return f"reach: {properties['reach']}"
    if entry.catalog == "family" and "objectives" in properties:
        return f"objectives: {', '.join(properties['objectives'])}"
    if entry.catalog == "task" and "families" in properties:
        from regard.tasks.advice import advise

        advice, families = advise(entry.name), ", ".join(properties["families"])
        return (
            f"for {families}: {advice.why}"
            if families == advice.family
            else f"for {families} · {advice}"
        )
    if entry.catalog == "metric":
        _, *others = [name.replace("_", " ") for name in getattr(entry.part, "score_names", ("",))]
        return f"also {', '.join(others)}" if others else ""
    if entry.catalog == "corpus" and "columns" in properties:
        return f"columns: {', '.join(properties['columns'])}"
    return ""


def broken_reason(entry: Entry) -> str:
    """Why a deliberately broken part is broken; empty for all others."""
    reason = str(entry.properties.get("broken", ""))
    return f"broken: {reason}; fails {', '.join(entry.properties['fails'])}" if reason else ""


def source_location(entry: Entry) -> str:
    """Source file and line; files of the user relative to the current folder."""
    file, _, line = entry.source.rpartition(":")
    path, here = Path(file), Path.cwd()
    return f"{path.relative_to(here)}:{line}" if path.is_relative_to(here) else entry.source


def _traits(properties: Properties) -> list[str]:
    """Supported use first, then unsupported options."""
    traits = [name for name in ("causal", "cacheable", "cross") if properties[name]]
    masks, relative_positions = properties["masks"], properties["relative_positions"]
    traits.append("any mask" if masks == "any" else f"masks {', '.join(masks)}")
    if not relative_positions:
        traits.append("absolute positions only")
    traits += [
        f"no {relative_type}"
        for relative_type in ("rotation", "bias")
        if relative_positions and relative_type not in relative_positions
    ]
    if len(properties["projections"]) == 1:
        traits.append("no shared projections")
    if not properties["grouped_heads"]:
        traits.append("no grouped heads")
    return traits
