"""Two to eight processes at once on one run: train, resume, report, list, delete."""

from __future__ import annotations

import random
from pathlib import Path

from tests.torture.commands import check, forked, invoke_into, wait, without_charts
from tests.torture.harness import Failure, Target
from tests.torture.training import RUN, Reference, finish_and_compare, fresh_copy, train_reference

COMMANDS = (
    *[("train", "tiny.toml", "--resume")] * 4,
    ("train", "tiny.toml"),
    ("runs",),
    ("report", RUN),
    ("evaluate", RUN),
    ("runs", "tiny", "--delete", "--yes"),
)


def trial(reference: Reference, generator: random.Random, folder: Path) -> str:
    workspace = fresh_copy(reference, folder, with_run=generator.random() < 0.3)
    count = generator.randrange(2, 9)
    chosen = [generator.choice(COMMANDS) for _ in range(count)]
    children = []
    for number, command in enumerate(chosen):

        def action(number: int = number, command: tuple[str, ...] = command) -> int:
            with without_charts():
                return invoke_into(workspace, folder / f"stderr{number}", *command)

        children.append(forked(action))
    codes = [wait(child) for child in children]
    for number, (code, command) in enumerate(zip(codes, chosen, strict=True)):
        stderr = (folder / f"stderr{number}").read_text(encoding="utf-8")
        check(code, stderr, command)
        if code not in (0, 1, 2, 3):
            raise Failure("crashed", f"{' '.join(command)}: exit code {code}")
    finish_and_compare(reference, workspace)
    refused = sum(code != 0 for code in codes)
    return "one writer, others refused, same bits" if refused else "one after the other, same bits"


TARGET = Target(
    "processes",
    "two to eight processes at once that train, resume, evaluate, report, list and delete one run",
    200,
    trial,
    train_reference,
    seconds=120,
)
