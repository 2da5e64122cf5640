"""The `regard` command line: one command of the tree in `commands.py`.

Commands are thin wrappers over `regard.api`; heavy imports are inside their functions.
"""

from __future__ import annotations

import sys

from regard.cli.ascii_output import accept_any_character
from regard.cli.commands import app
from regard.cli.exit_codes import run_command
from regard.core.process.waiting_threads import limit_spinning

QUIET = "--quiet"


def main() -> None:
    """Run one command."""
    accept_any_character(sys.stdout, sys.stderr)
    limit_spinning()
    arguments = quiet_first(sys.argv[1:])
    # Named, for it may run as `python -m regard`.
    run_command(lambda: app(arguments, prog_name="regard", standalone_mode=False))


def quiet_first(arguments: list[str]) -> list[str]:
    """`--quiet` is an option of regard itself, but people write it after the command."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    if QUIET not in arguments[:end]:
        return arguments
    return [QUIET, *(one for one in arguments[:end] if one != QUIET), *arguments[end:]]
