"""What the launcher says of this process: its rank, how many ranks there are, and where they meet.

    RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT

torchrun sets these variables, and so do other launchers; without them a process is on its own.
Loads no torch, so that a command knows who it is before it computes anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from regard.core.errors import UserError

MAX_PORT = 65_535


@dataclass(frozen=True)
class Launch:
    """One of several processes that train together."""

    rank: int
    size: int
    "Number of ranks."
    local_rank: int
    "Among the ranks of this machine."
    local_size: int
    address: str
    port: int
    restarts: int
    "How often the launcher has started all ranks again."
    hosts_store: bool
    "Whether rank 0 opens the port; under torchrun its agent does."

    @classmethod
    def of_environment(cls, variables: Mapping[str, str] = os.environ) -> Self | None:
        """None for a process on its own, also where it is the only rank."""
        if _number(variables, "WORLD_SIZE", default=1) <= 1:
            return None
        size, rank = _number(variables, "WORLD_SIZE"), _number(variables, "RANK")
        local_rank = _number(variables, "LOCAL_RANK", default=rank)
        port = _number(variables, "MASTER_PORT")
        for name, value, limit in (("RANK", rank, size), ("MASTER_PORT", port, MAX_PORT + 1)):
            if value >= limit:
                raise _unusable(name, variables[name], f"is not below {limit}")
        if not variables.get("MASTER_ADDR"):
            raise _unusable("MASTER_ADDR", "", "is missing")
        return cls(
            rank=rank,
            size=size,
            local_rank=local_rank,
            local_size=_number(variables, "LOCAL_WORLD_SIZE", default=size),
            address=variables["MASTER_ADDR"],
            port=port,
            restarts=_number(variables, "TORCHELASTIC_RESTART_COUNT", default=0),
            hosts_store=rank == 0 and variables.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        )


def launched_rank(variables: Mapping[str, str] = os.environ) -> int:
    """The rank of this process, 0 where it is on its own or where no launcher would write so."""
    rank = variables.get("RANK", "")
    several = variables.get("WORLD_SIZE", "1") not in ("", "0", "1")
    return int(rank) if several and rank.isdecimal() else 0


def _number(variables: Mapping[str, str], name: str, *, default: int | None = None) -> int:
    text = variables.get(name, "")
    if not text and default is not None:
        return default
    if not text.isdecimal():
        raise _unusable(name, text, "is no number" if text else "is missing")
    return int(text)


def _unusable(name: str, text: str, why: str) -> UserError:
    given = f" = {text!r}" if text else ""
    return UserError(
        f"the environment variable {name}{given} {why}",
        topic="ranks",
        hint="Start several processes with torchrun --nproc-per-node N -m regard train RECIPE; "
        "for a single one unset RANK and WORLD_SIZE.",
    )
