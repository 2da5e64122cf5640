"""A row of the group "as typed": regard against one peer in two columns.

The peer is typed as its documentation says, and as those type it who know the machine: memory
kept, compiled where that pays, the best thread policy. The goal is against the faster one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.as_typed.command import Command
from benchmarks.speed.timing import OURS, Row, fastest_peer, ratio_by_round

GROUP = "as typed"
MAX_ROUNDS = 3
"Commands take up to minutes each."
UNITS = {"s": 1.0, "ms": 1e3}
"Of a second."


@dataclass
class TypedRow(Row):
    """A row whose contestants are commands."""

    peer: str = ""
    documented: str = ""
    "The contestant that follows the peer's documentation; the others are those who know."
    typed: Mapping[str, str] = field(default_factory=dict)
    "What is typed, by contestant."


def typed_row(
    work: str,
    times: Mapping[str, Sequence[float]],
    *,
    peer: str,
    documented: str,
    commands: Mapping[str, Command],
    goal: float,
    unit: str = "s",
    same_work: str = "",
    notes: Sequence[str] = (),
) -> TypedRow:
    """From the seconds of each contestant by round."""
    best = fastest_peer(times)
    return TypedRow(
        GROUP,
        work,
        unit,
        {name: UNITS[unit] * median(seconds) for name, seconds in times.items()},
        ratio_by_round(times[best], times[OURS]),
        f"time of {best} ÷ ours",
        goal,
        same_work=same_work,
        notes=list(notes),
        peer=peer,
        documented=documented,
        typed={name: command.as_typed for name, command in commands.items()},
    )
