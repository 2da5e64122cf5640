"""The targets: every file of `targets/` has one, `TARGET`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tests.torture.harness import Target


def find_targets(names: Sequence[str] = ()) -> list[Target]:
    """The targets of these names, or all."""
    files = sorted((Path(__file__).parent / "targets").glob("*.py"))
    found = [import_module(f"tests.torture.targets.{file.stem}").TARGET for file in files]
    chosen = [one for one in found if not names or one.name in names]
    if missing := {*names} - {one.name for one in chosen}:
        raise SystemExit(f"no target {sorted(missing)}; known: {[one.name for one in found]}")
    return chosen
