"""Pauses of garbage collection while many objects are made and none can be freed.

Each collection walks all objects. Imports make objects that live as long as the process, torch's
too: a sixth of the time to import `regard.api`. Syntax trees have no cycles, but many nodes:
collections take nearly as long as parsing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
