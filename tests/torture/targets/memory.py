"""Limits on memory while a training runs or resumes: one sentence, then the same bits."""

from __future__ import annotations

import random
from pathlib import Path

from tests.torture.commands import check, forked, invoke_into, wait, without_charts
from tests.torture.harness import Failure, Target
from tests.torture.training import (
    RUN,
    Reference,
    compare,
    finish_and_compare,
    fresh_copy,
    train_reference,
)

TRAIN = ("train", "tiny.toml", "--resume")
MEGABYTE = 1 << 20


def limit_memory(more: int) -> None:
    """From here on this process may have so many bytes of addresses more than it has."""
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def trial(reference: Reference, generator: random.Random, folder: Path) -> str:
    if not Path("/proc/self/statm").is_file():
        return "not on this system"
    workspace = fresh_copy(reference, folder)
    more = int(2 ** generator.uniform(-7, 5) * MEGABYTE)

    def action() -> int:
        limit_memory(more)
        with without_charts():
            return invoke_into(workspace, folder / "stderr", *TRAIN)

    code = wait(forked(action))
    log = folder / "stderr"
    stderr = log.read_text(encoding="utf-8") if log.is_file() else "no log"
    check(code, stderr, TRAIN)
    if code not in (0, 2):
        raise Failure("crashed", f"{more >> 10} kB: exit code {code}: {stderr[-300:]}")
    if code == 0:
        compare(reference, workspace.folder / RUN)
        return "enough, same bits"
    finish_and_compare(reference, workspace)
    return "refused, then the same bits"


TARGET = Target(
    "memory",
    "8 kB to 32 MB more than the process has, for a whole training",
    50,
    trial,
    train_reference,
)
