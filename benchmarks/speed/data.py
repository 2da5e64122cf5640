"""Where data of one's own lies; rows that need it and find none are left out, and that is said."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "REGARD_DATA"


class MissingDataError(Exception):
    """A row cannot be measured here, and why."""


def data_file(name: str) -> Path:
    """A file below the folder that REGARD_DATA names."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise MissingDataError(f"{name} is looked for below {VARIABLE}, which is not set")
    found = Path(folder) / name
    if not found.is_file():
        raise MissingDataError(f"there is no {name} below {VARIABLE}")
    return found
