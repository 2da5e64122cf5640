"""Who watches a call: the observer that is given, or progress where someone looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from regard.runs.observer import Observer

if TYPE_CHECKING:
    from rich.console import Console


Display = Callable[["Console | None"], AbstractContextManager[Observer]]


def observed_training(observer: Observer | None) -> AbstractContextManager[Observer]:
    from regard.progress.training_display import training_display

    return _observed(observer, training_display)


def observed_study(observer: Observer | None) -> AbstractContextManager[Observer]:
    from regard.progress.study_display import study_display

    return _observed(observer, study_display)


@contextmanager
def _observed(observer: Observer | None, display: Display) -> Iterator[Observer]:
    """The given observer, or one that shows progress where someone watches."""
    from regard.progress.bars import default_console

    if observer is not None:
        yield observer
        return
    with display(default_console()) as shown:
        yield shown
