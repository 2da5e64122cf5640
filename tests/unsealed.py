"""Folders of a version that did not seal yet."""

from __future__ import annotations

from pathlib import Path

from regard.core.seal import break_seal


def unseal(home: Path) -> None:
    """Remove the seal, and what says that there is one."""
    break_seal(home)
    for file in home.glob("*.json"):
        file.write_bytes(file.read_bytes().replace(b'"sealed": true', b'"sealed": false'))
