"""A full or failing disk at any write of a training: one sentence, and then the same bits."""

from __future__ import annotations

import errno
import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.torture.commands import check, forked, wait, without_charts
from tests.torture.harness import Failure, Target
from tests.torture.training import Reference, finish_and_compare, fresh_copy, train_reference
from tests.torture.write_points import at_every_write, count_writes

TRAIN = ("train", "tiny.toml", "--resume")
ERRORS = (errno.ENOSPC, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)


@dataclass(frozen=True)
class Prepared:
    reference: Reference
    writes: int


def make(home: Path) -> Prepared:
    reference = train_reference(home)
    workspace = fresh_copy(reference, home / "counted")
    with without_charts():
        writes = count_writes(lambda: workspace.run(*TRAIN))
    shutil.rmtree(home / "counted")
    return Prepared(reference, writes)


def trial(made: Prepared, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(made.reference, folder)
    first, number = generator.randrange(1, made.writes + 1), generator.choice(ERRORS)
    lasts = generator.random() < 0.7

    def fault(at: int, done: bool) -> None:
        if not done and (at == first or (lasts and at > first)):
            raise OSError(number, os.strerror(number), "a file")

    def action() -> int:
        with at_every_write(fault), without_charts():
            return invoke()

    def invoke() -> int:
        result = workspace.invoke(*TRAIN)
        os.write(writer, result.stderr.encode()[-4000:])
        return result.exit_code

    reader, writer = os.pipe()
    code = wait(forked(action))
    os.close(writer)
    stderr = os.read(reader, 1 << 16).decode(errors="replace")
    os.close(reader)
    check(code, stderr, TRAIN)
    if code not in (0, 2):
        raise Failure("crashed", f"exit code {code}: {stderr[-300:]}")
    finish_and_compare(made.reference, workspace)
    return "refused, then the same bits" if code else "not in the way, same bits"


TARGET = Target(
    "disk", "a full, failing or read-only disk at any write of a training", 500, trial, make
)
