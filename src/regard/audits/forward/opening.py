"""What opens a finding: the fewest tensors whose structural values are enough for it to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from regard.audits.forward.forward_mode import ForwardError, ForwardMode
from regard.audits.forward.structural import by_suspicion

MAX_TENSORS_NAMED = 3


def tensors_that_open(mode: ForwardMode, shows: Callable[[ForwardMode], bool]) -> tuple[str, ...]:
    """Names of few tensors; bisection finds each that is needed, the most suspicious first."""
    assert mode.replacement is not None
    assert mode.audited.module is not None
    values = mode.replacement
    names = by_suspicion(mode.audited.module, values)
    needed: list[str] = []

    def opens_with(count: int) -> bool:
        part = values.restricted_to([*needed, *names[:count]])
        try:
            return shows(replace(mode, replacement=part))
        except ForwardError:
            return False

    while names and not opens_with(0):
        low, high = 0, len(names)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if opens_with(middle) else (middle, high)
        needed.append(names[high - 1])
        names = names[: high - 1]
    return tuple(needed[:MAX_TENSORS_NAMED])
