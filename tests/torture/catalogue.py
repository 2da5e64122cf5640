"""The targets: every file of `targets/` has one, `TARGET`; a new one is a new file, nothing else.

    TARGET = Target("pages", "what was done, for the table", 200, trial, make, seconds=60)

`make(home)` builds once what all trials read; `trial(made, generator, folder)` does harm once in an
empty folder, draws only from its generator, and returns a word for what happened, or raises
`Failure`. It runs in a forked child, which must not have started threads in `make`. What helps:

    training.py      a training, and the check that it ends with the same bits
    small_study.py   a study that trains in this process
    disk_commands.py commands that change the disk, with a check after each: a new one is killed,
                     and loses power, once it has a weight in targets/kills.py and power_loss.py
    write_points.py  a fault before or after any write
    races.py         commands at once, on one machine or several (network_folder.py)
    browser.py       a page as chromium reads it
    commands.py      commands that owe one sentence, signals, flipped bits

docs/reliability.md and the long tests find the target by its file.
"""

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
