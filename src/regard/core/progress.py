"""Progress callbacks: `on_progress(done, total)`, where the total may be unknown."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int, int | None], None]


def no_progress(done: int, total: int | None) -> None:
    """A progress callback that does nothing."""
