"""No garbage collections while many objects are made and none can be freed.

Each collection walks all objects. Syntax trees have no cycles but many nodes: collections take
nearly as long as parsing. Imports make objects that live as long as the process, torch's too:
collections are a sixth of the time to import `regard.api`.
"""

from __future__ import annotations

import gc
import sys
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


@contextmanager
def uncollected_imports() -> Iterator[None]:
    """Imports whose objects are not walked later either.

    All objects there are get frozen, the caller's too. Who has torch may have models, and wants
    their memory back: then nothing is frozen.
    """
    may_have_models = "torch" in sys.modules
    with paused_collection():
        yield
        if not may_have_models:
            gc.freeze()
