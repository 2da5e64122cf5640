"""Commands typed at once, in one folder or on several machines that share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tests.journeys.workspace import Workspace
from tests.torture.commands import check, forked, invoke_into, wait
from tests.torture.harness import Failure
from tests.torture.small_study import in_this_process

Command = tuple[str, ...]


def race(
    workspace: Workspace,
    folder: Path,
    commands: Sequence[Command],
    *,
    machine: Callable[[int], AbstractContextManager[None]] = lambda number: nullcontext(),
    may_be_killed: bool = False,
) -> list[int]:
    """Exit codes of the commands, each in a process of its own; logs go to `folder`. `machine` is
    entered by each process, with its number."""
    children = []
    for number, command in enumerate(commands):

        def action(number: int = number, command: Command = command) -> int:
            with in_this_process(), machine(number):
                return invoke_into(workspace, folder / f"stderr{number}", *command)

        children.append(forked(action))
    codes = [wait(child) for child in children]
    for number, (code, command) in enumerate(zip(codes, commands, strict=True)):
        if may_be_killed and code == -9:
            continue
        log = folder / f"stderr{number}"
        check(code, log.read_text(encoding="utf-8") if log.is_file() else "no log", command)
        if code not in (0, 1, 2, 3):
            raise Failure("crashed", f"{' '.join(command)}: exit code {code}")
    return codes
