"""Devices that a training may be planned for, and their memory as their makers' fact sheets say.

A GB of a fact sheet is counted as 10⁹ bytes, of which a driver reports a little more or less.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.core.errors import UserError, closest

GB = 10**9
RESERVED_BYTES = GB
"Left for the driver's context, libraries' workspaces and the buffers of communication."


@dataclass(frozen=True)
class Accelerator:
    name: str
    gigabytes: int
    has_bf16: bool = True

    @property
    def bytes(self) -> int:
        return self.gigabytes * GB


_ALL = (
    Accelerator("V100-16GB", 16, has_bf16=False),
    Accelerator("V100-32GB", 32, has_bf16=False),
    Accelerator("T4-16GB", 16, has_bf16=False),
    Accelerator("A10-24GB", 24),
    Accelerator("A100-40GB", 40),
    Accelerator("A100-80GB", 80),
    Accelerator("L4-24GB", 24),
    Accelerator("L40S-48GB", 48),
    Accelerator("H100-80GB", 80),
    Accelerator("H100-94GB", 94),
    Accelerator("H200-141GB", 141),
    Accelerator("B200-180GB", 180),
    Accelerator("RTX-3090-24GB", 24),
    Accelerator("RTX-4090-24GB", 24),
    Accelerator("RTX-5090-32GB", 32),
    Accelerator("MI250X-128GB", 128),
    Accelerator("MI300X-192GB", 192),
    Accelerator("MI325X-256GB", 256),
)
ACCELERATORS = {accelerator.name: accelerator for accelerator in _ALL}


def find_accelerator(name: str) -> Accelerator:
    """By its name, in upper or lower case."""
    by_name = {known.lower(): one for known, one in ACCELERATORS.items()}
    found = by_name.get(name.strip().lower().replace(" ", "-"))
    if found is not None:
        return found
    known = list(ACCELERATORS)
    raise UserError(
        f"unknown device {name!r}{closest(name, known)}",
        topic="--device",
        hint=f"Known are {', '.join(known)}.",
    )
