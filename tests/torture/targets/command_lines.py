"""Command lines that nobody meant, typed into a folder with a finished run."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import typer.main
from tests.journeys.workspace import Workspace
from tests.torture.commands import one_thread, tortured, without_charts, workspace_at
from tests.torture.harness import Target
from tests.torture.hostile_values import SCALARS

from regard.cli.app import app

PATHS = ("tiny.toml", "runs/tiny", "runs/tiny/final", "runs", "generated.txt", "none", ".", "", "/")
LEFT_OUT = {"lesson", "exercise", "check", "compare", "sweep", "serve"}
"Lessons and contracts compute for seconds, studies start processes, a page is served until Ctrl-C."


def make(home: Path) -> Workspace:
    workspace = workspace_at(home / "work")
    workspace.recipe()
    with without_charts():
        workspace.run("train", "tiny.toml")
    one_thread()
    return workspace


def trial(made: Workspace, generator: random.Random, folder: Path) -> str:
    workspace = Workspace(folder / "work")
    shutil.copytree(made.folder, workspace.folder)
    group = typer.main.get_command(app)
    names = sorted(set(group.commands) - LEFT_OUT)  # type: ignore[attr-defined]
    name = generator.choice(names)
    command = group.commands[name]  # type: ignore[attr-defined]
    options = [option for one in command.params for option in one.opts if option.startswith("-")]
    arguments = [name]
    if hasattr(command, "commands"):
        arguments.append(generator.choice(sorted(command.commands)))
    for _ in range(generator.randrange(5)):
        kind = generator.randrange(4)
        if kind == 0 and options:
            arguments.append(generator.choice(options))
        if kind <= 2:
            arguments.append(generator.choice(PATHS))
        else:
            arguments.append(str(generator.choice(SCALARS)))
    arguments = [one.replace("\0", "") for one in arguments]
    with without_charts():
        result = tortured(workspace, *arguments)
    return f"exit code {result.exit_code}"


TARGET = Target(
    "command lines",
    "random commands, options and paths in a folder with a finished run",
    5_000,
    trial,
    make,
    seconds=90,
    batch=10,
)
