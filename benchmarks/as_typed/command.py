"""A command as a user types it, timed from its start to its last line.

Each turn is a fresh process in the environment of a user's own shell, with an empty cache of
regard's: a first run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.environment import user_environment

REPOSITORY = Path(__file__).parents[2]
SCRIPTS, RECIPE_FOLDER = Path(__file__).parent / "scripts", Path(__file__).parent / "recipes"
"What is typed: the peers' scripts, and recipes."
TAIL = 2000


def python(*words: object) -> tuple[str, ...]:
    return (sys.executable, *map(str, words))


def regard(*words: object) -> tuple[str, ...]:
    """The command `regard`, as installed beside this interpreter."""
    return (str(Path(sys.executable).with_name("regard")), *map(str, words))


@dataclass(frozen=True)
class Command:
    """What is typed, where, and what is deleted before, so that each turn is a first one."""

    words: Sequence[str]
    folder: Path
    "The working directory; what the command prints goes to `printed.txt` there."
    environment: Mapping[str, str] = field(default_factory=dict)
    "What the user sets besides, such as malloc's variables."
    outputs: Sequence[str] = ()
    "Files and folders that a turn writes, under the working directory."

    def __call__(self) -> float:
        """Seconds of one turn; raises if the command fails."""
        for name in self.outputs:
            _delete(self.folder / name)
        environment = user_environment(
            {"HF_HUB_OFFLINE": "1", "REGARD_CACHE": str(self.folder / "cache"), **self.environment}
        )
        with self.printed.open("wb") as printed:
            began = time.perf_counter()
            code = subprocess.run(
                list(self.words),
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
            seconds = time.perf_counter() - began
        if code:
            tail = self.printed.read_text(encoding="utf-8", errors="replace")[-TAIL:]
            raise RuntimeError(f"{' '.join(self.words)} ended with code {code}:\n{tail}")
        return seconds

    @property
    def as_typed(self) -> str:
        """The line with the variables set before it, without this machine's paths."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([*variables, *(Path(word).name for word in self.words)])

    @property
    def printed(self) -> Path:
        return self.folder / "printed.txt"


def prepare(words: Sequence[str], folder: Path) -> None:
    """Run a command once that belongs to no turn."""
    Command(words, folder)()


def warm_up(*modules: str) -> None:
    """Import them once, so that no contestant alone reads its packages from the disk."""
    code = "import " + ", ".join(modules)
    subprocess.run(python("-c", code), check=True, env=user_environment(), capture_output=True)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
