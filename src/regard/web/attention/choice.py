"""What an address of the attention workbench says: sentence, weights, kinds, mask, what is large.

Every view has such an address, and every value in it is checked here, before a worker sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from regard.attention.masks.painted import parse_cells
from regard.core.errors import UserError, closest
from regard.core.settings import read_settings
from regard.runs.inspection.kinds_side_by_side import FreshWeights, available_kinds

SENTENCE = "The animal did not cross the street because it was too tired."
MAX_CHARACTERS = 4000
MAX_EXPRESSION = 400
MAX_KINDS = 4
MAX_INDEX = 10_000
SHOWN = ("map", "arcs")
PICTURE = ("theme", "width")
"Options of a picture."


@dataclass(frozen=True)
class AttentionChoice:
    """A view of the workbench."""

    text: str = SENTENCE
    run: str = ""
    "Id of the run whose weights are taken; empty for fresh ones."
    fresh: FreshWeights = field(default_factory=FreshWeights)
    kinds: tuple[str, ...] = ()
    "Empty: a run's own; of fresh weights `dot` and `additive`."
    mask: str = ""
    "Expression; empty: the model's own."
    allow: str = ""
    "Painted cells, as `parse_cells` reads them."
    forbid: str = ""
    declared: str = ""
    "What the audit holds the mask against: an expression; empty: the model's own."
    layer: int = 0
    head: int = 0
    query: int = -1
    "The query whose weights are listed; -1: the last."
    key: int = -1
    through: int = 0
    "Layers through which is counted who reaches whom; 0: all."
    show: str = "map"

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> AttentionChoice:
        """From the parameters of an address; those of a picture are passed over."""
        names = [one.name for one in fields(cls) if one.name != "fresh"]
        weights = list(FreshWeights.model_fields)
        for name in given:
            if name not in (*names, *weights, *PICTURE):
                known = [*names, *weights]
                raise _wrong(f"unknown parameter {name[:40]!r}{closest(name[:40], known)}")
        values: dict[str, Any] = {name: given[name] for name in names if name in given}
        for name in ("layer", "head", "query", "key", "through"):
            if name in values:
                values[name] = _whole(name, values[name])
        for name, limit in (("text", MAX_CHARACTERS), ("mask", MAX_EXPRESSION)):
            _check_length(name, values.get(name, ""), limit)
        _check_length("declared", values.get("declared", ""), MAX_EXPRESSION)
        if values.get("show", "map") not in SHOWN:
            raise _wrong(f"show = {values['show'][:20]!r}: {' or '.join(SHOWN)}")
        values["kinds"] = _kinds(values.get("kinds", ""))
        for name in ("allow", "forbid"):
            parse_cells(values.get(name, ""))
        fresh = _fresh({name: given[name] for name in weights if name in given})
        return cls(fresh=fresh, **values)

    @property
    def shown_kinds(self) -> tuple[str, ...]:
        return self.kinds or (() if self.run else ("dot", "additive"))


def _fresh(given: Mapping[str, str]) -> FreshWeights:
    try:
        return read_settings(FreshWeights, given)  # numbers are read from text
    except UserError as problem:
        raise _wrong(problem.what, hint=problem.hint) from None


def _whole(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 5:
        raise _wrong(f"{name} = {text[:20]!r}: give a whole number")
    return max(-1, min(int(text), MAX_INDEX))


def _kinds(text: str) -> tuple[str, ...]:
    kinds, known = tuple(dict.fromkeys(filter(None, text.split(",")))), available_kinds()
    for kind in kinds:
        if kind not in known:
            raise _wrong(
                f"unknown kind {kind[:40]!r}{closest(kind[:40], list(known))}",
                hint=f"Choose of {', '.join(known)}.",
            )
    if len(kinds) > MAX_KINDS:
        raise _wrong(f"{len(kinds)} kinds", hint=f"Choose {MAX_KINDS} or fewer.")
    return kinds


def _check_length(name: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise _wrong(f"{name} has {len(text):,} characters", hint=f"Give {limit:,} or fewer.")


def _wrong(what: str, *, hint: str = "") -> UserError:
    return UserError(what, topic="attention", hint=hint)
