"""Files of lines, for tests."""

from __future__ import annotations

from pathlib import Path


def write_lines(path: Path, *lines: str) -> str:
    """Write the lines, each with its end, and return the path as a recipe gives it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)
