"""Damage to any file of a finished run, an unfinished one, or a token cache: never believed."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.journeys.workspace import Workspace
from tests.torture.commands import flip_bits, tortured, without_charts
from tests.torture.harness import Failure, Target
from tests.torture.training import (
    RUN,
    Reference,
    compare,
    finish_and_compare,
    fresh_copy,
    train_reference,
)

READERS = (
    ("report", RUN),
    ("evaluate", RUN, "--json"),
    ("errors", RUN, "--json"),
    ("runs", "--json"),
    ("generate", RUN, "the cat"),
)
NAMED = (
    "damaged",
    "edited",
    "was added",
    "is missing",
    "not shown",
    "skipped",
    "manifest",
    "dropped",
)
LATEST = "checkpoints/step-000020"


@dataclass(frozen=True)
class Prepared:
    reference: Reference
    shown: dict[tuple[str, ...], str]
    "What each reader shows of the undamaged run."


def show(workspace: Workspace, command: tuple[str, ...]) -> tuple[int, str, str]:
    """Exit code; what is shown as a result; and everything that was said."""
    with without_charts():
        result = tortured(workspace, *command)
    page = workspace.folder / RUN / "report.html"
    shown = result.stdout
    if command[0] == "report" and result.exit_code == 0:
        shown += page.read_text(encoding="utf-8")
    return result.exit_code, shown, result.stderr + shown


def make(home: Path) -> Prepared:
    reference = train_reference(home)
    shutil.rmtree(home / "pristine", ignore_errors=True)
    pristine = fresh_copy(reference, home / "pristine", with_run=True)
    shown = {}
    for command in READERS:
        code, shown[command], said = show(pristine, command)
        assert code == 0, said
    return Prepared(reference, shown)


def damage(file: Path, generator: random.Random) -> None:
    """As a disk does it: the date stays."""
    before, content = file.stat(), file.read_bytes()
    if generator.random() < 0.05:
        file.unlink()
        return
    damaged = flip_bits(content, generator)
    file.write_bytes(damaged if damaged != content else content + b" ")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def a_file(folder: Path, generator: random.Random) -> Path:
    """Any file, of each folder as likely as of any other: there are many checkpoints."""
    folders = sorted({file.parent for file in folder.rglob("*") if file.is_file()})
    chosen = generator.choice(folders)
    return generator.choice(sorted(path for path in chosen.iterdir() if path.is_file()))


def of_a_finished_run(made: Prepared, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(made.reference, folder, with_run=True)
    damage(a_file(workspace.folder / RUN, generator), generator)
    command = generator.choice(READERS)
    code, shown, said = show(workspace, command)
    if code:
        return "detected and named"
    if shown == made.shown[command]:
        return "harmless: shows the same"
    if any(word in said for word in NAMED):
        return "detected and named"
    raise Failure("believed", f"regard {' '.join(command)} shows something else without a word")


def of_an_unfinished_run(made: Prepared, generator: random.Random, folder: Path) -> str:
    """Resumed, it ends with the same bits, or says what is damaged."""
    workspace = fresh_copy(made.reference, folder, with_run=True)
    run = workspace.folder / RUN
    for name in ("final", LATEST):
        shutil.rmtree(run / name)
    for name in ("results.json", "seal.json", "report.html", "samples.txt"):
        (run / name).unlink(missing_ok=True)
    damage(a_file(run, generator), generator)
    result = tortured(workspace, "train", "tiny.toml", "--resume")
    if result.exit_code:
        return "detected and named"
    compare_but_events(made.reference, run, said=result.stderr)
    return "resumed to the same bits"


def compare_but_events(reference: Reference, run: Path, *, said: str) -> None:
    try:
        compare(reference, run)
    except Failure as failure:
        if "logged steps" not in failure.detail or "dropped" not in said:
            raise


def of_a_cache(made: Prepared, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(made.reference, folder)
    damage(a_file(workspace.folder / "cache", generator), generator)
    finish_and_compare(made.reference, workspace)
    return "rebuilt, same bits"


def trial(made: Prepared, generator: random.Random, folder: Path) -> str:
    kinds = (of_a_finished_run, of_a_finished_run, of_an_unfinished_run, of_a_cache)
    return generator.choice(kinds)(made, generator, folder)


TARGET = Target(
    "bit flips",
    "flipped bits, lost ends, zeroed or repeated blocks in any file of a run or a token cache",
    5_000,
    trial,
    make,
    batch=10,
)
