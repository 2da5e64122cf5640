"""External data files; rows whose data is missing are skipped and listed."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "REGARD_DATA"


class MissingDataError(Exception):
    """The data of a row is missing; the message names it."""


def data_file(name: str) -> Path:
    """A file under the folder REGARD_DATA."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise MissingDataError(f"{VARIABLE}, the folder of {name}, is not set")
    path = Path(folder) / name
    if not path.is_file():
        raise MissingDataError(f"there is no {name} under {VARIABLE}")
    return path
