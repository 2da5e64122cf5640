"""Where data of one's own lies, for the rows that need it; without it they are left out and said."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "REGARD_DATA"


class Missing(Exception):
    """A row cannot be measured here, and why."""


def data_file(name: str) -> Path:
    """A file below the folder that REGARD_DATA names."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise Missing(f"{name} is read from the folder that {VARIABLE} names, and it names none")
    found = Path(folder) / name
    if not found.is_file():
        raise Missing(f"there is no {name} below {VARIABLE}")
    return found
