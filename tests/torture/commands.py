"""Commands inside a trial, and what every one of them owes: no traceback, one sentence."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from unittest import mock

from tests.journeys.workspace import CommandResult, Workspace, generated_text
from tests.torture.harness import Failure

SENTENCE_CODES = (1, 2, 3)
"Exit codes of errors that a person can mend, and of verdicts."


def workspace_at(folder: Path) -> Workspace:
    workspace = Workspace(folder)
    workspace.write("generated.txt", generated_text())
    return workspace


def tortured(workspace: Workspace, *arguments: str) -> CommandResult:
    """The command's result; `Failure` if it broke its promise."""
    result = workspace.invoke(*arguments)
    check(result.exit_code, result.stderr, arguments)
    return result


def check(code: int, stderr: str, arguments: Sequence[str]) -> None:
    shown = " ".join(arguments)[:200]
    if code == 70 or "this is a bug in regard" in stderr:
        raise Failure("crashed", f"regard {shown}: {stderr.strip()[-600:]}")
    if "Traceback (most recent call last)" in stderr:
        raise Failure("crashed", f"regard {shown}: {stderr.strip()[-600:]}")
    if code and not stderr.strip():
        raise Failure("crashed", f"regard {shown}: exit code {code} without a word")


def without_charts() -> mock._patch[mock.MagicMock]:
    return mock.patch("regard.reports.run_report.draw_inline_charts", return_value=[])


def forked(action: Callable[[], int]) -> int:
    """Run an action in a child; returns its process id."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        code = action()
    except KeyboardInterrupt:  # after the command had ended, before this process did
        code = 128 + signal.SIGINT
    except BaseException:  # of the harness: commands end with an exit code
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(child: int) -> int:
    """The child's exit code; negative for the signal that ended it."""
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def signal_within(child: int, number: int, *, after: float) -> bool:
    """Send a signal after some seconds; whether the child was still there."""
    time.sleep(after)
    with suppress(ProcessLookupError):
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        os.kill(child, number)
        return True
    return False


def invoke_into(workspace: Workspace, log: Path, *arguments: str) -> int:
    """For a child: run a command, keep its stderr in a file, return its exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    result = workspace.invoke(*arguments)
    log.write_text(result.stderr, encoding="utf-8", errors="replace")
    return result.exit_code


def flip_bits(content: bytes, generator: random.Random) -> bytes:
    """A flipped bit, a lost end, a lost or zeroed block, or a repeated one."""
    changed = bytearray(content)
    if not changed:
        return b"\0"
    at = generator.randrange(len(changed))
    size = generator.choice((1, 16, 512, 4096))
    damage = generator.randrange(6)
    if damage <= 1:
        changed[at] ^= 1 << generator.randrange(8)
    elif damage == 2:
        del changed[at:]
    elif damage == 3:
        changed[at : at + size] = bytes(len(changed[at : at + size]))
    elif damage == 4:
        del changed[at : at + size]
    else:
        changed[at:at] = changed[at : at + size]
    return bytes(changed)


def one_thread() -> None:
    """Before forking: threads do not survive it."""
    import torch

    torch.set_num_threads(1)
    sys.setswitchinterval(0.005)
