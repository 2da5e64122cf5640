"""A person's workspace: a folder of their own, generated text in it, and the commands as they type them.

Most commands run inside the test process (`Workspace.regard`), because importing torch anew for each
costs seconds; what only a process of its own shows (exit codes, signals) takes `Workspace.spawn`.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import tomli_w

from regard.cli.app import main
from regard.core.files import sha256

WORDS = (
    ["the", "a", "one", "every", "some"],
    ["cat", "dog", "bird", "river", "stone", "child", "farmer", "ship", "cloud", "lamp"],
    ["sees", "finds", "follows", "carries", "paints", "hears", "loses"],
    ["quickly", "slowly", "today", "again", "never", "often"],
)

TINY: dict[str, Any] = {
    "name": "tiny",
    "data": {"corpus": "generated.txt", "dev": 0.1, "test": 0.1},
    "tokenizer": {"kind": "word"},
    "model": {
        "family": "decoder",
        "layers": 1,
        "heads": 2,
        "width": 16,
        "context": 16,
        "dropout": 0.1,
    },
    "train": {
        "max_steps": 20,
        "batch_tokens": 256,
        "lr": 1e-2,
        "checkpoint_every": 5,
        "evaluate_every": 10,
        "threads": 1,
    },
    "samples": {"prompts": [""], "max_new_tokens": 8},
}
"A recipe that trains in about a second."


@dataclass(frozen=True)
class CommandResult:
    """What a command left for the person to read."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The sentence a command ends with when it refuses."""
        return self.stderr.strip().rpartition("\n")[2]


@dataclass(frozen=True)
class Workspace:
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "REGARD_CACHE": str(self.folder / "cache"),
            "HOME": str(self.folder),
            "PATH": os.environ.get("PATH", ""),
        }

    def invoke(self, *words: str) -> CommandResult:
        """Run a command here, inside this process."""
        out, err = io.StringIO(), io.StringIO()
        code = 0
        with (
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, {"REGARD_CACHE": self.environment["REGARD_CACHE"]}),
            mock.patch.object(sys, "argv", ["regard", *words]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as left:
                code = int(left.code or 0)
        return CommandResult(code, out.getvalue(), err.getvalue())

    def run(self, *words: str) -> str:
        """Run a command that has to succeed; what it printed."""
        outcome = self.invoke(*words)
        assert outcome.exit_code == 0, outcome.stderr
        return outcome.stdout

    def spawn(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "regard", *words],
            cwd=self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_subprocess(self, *words: str, **environment: str) -> CommandResult:
        """Run a command in a process of its own, to its end."""
        with self.spawn(*words, **environment) as process:
            out, err = process.communicate(timeout=120)
        return CommandResult(process.returncode, out, err)

    def write(self, name: str, content: str | bytes) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def recipe(self, name: str = "tiny.toml", /, **settings: Any) -> Path:
        """The tiny recipe with some settings changed: `recipe(train__lr="fast")`; None drops."""
        return self.write(name, tomli_w.dumps(with_settings(TINY, settings)))


def with_settings(table: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    fresh: dict[str, Any] = tomllib.loads(tomli_w.dumps(table))
    for path, value in settings.items():
        *tables, last = path.split("__")
        inner = fresh
        for step in tables:
            inner = inner.setdefault(step, {})
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    return fresh


def generated_sentences(count: int = 400) -> list[str]:
    """Generated, not real: seeded random words in a fixed order."""
    drawn = random.Random(0)
    articles, nouns, verbs, adverbs = WORDS
    parts = (articles, nouns, verbs, articles, nouns, adverbs)
    return [" ".join(drawn.choice(part) for part in parts) + "." for _ in range(count)]


def generated_text(count: int = 400) -> str:
    return "\n".join(generated_sentences(count)) + "\n"


def weights(run: Path) -> str:
    """What two runs have in common exactly if they ended in the same bits."""
    return sha256(run / "final" / "model.safetensors")


def flip_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x01
    file.write_bytes(content)


def file_digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder, to see that nothing was changed."""
    return {
        str(file.relative_to(folder)): sha256(file) for file in _files(folder) if file.is_file()
    }


def _files(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.rglob("*")))
