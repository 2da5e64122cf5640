"""A user's working folder with generated text, and the commands as users type them.

Most commands run inside the test process (`Workspace.invoke`), because each import of torch costs
seconds; tests of exit codes and signals start a separate process (`Workspace.spawn`).
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import subprocess
import sys
import tomllib
from collections.abc import Mapping
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
    exit_code: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """The last line on stderr: the error sentence."""
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
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # the sources under test
        }

    def invoke(self, *arguments: str) -> CommandResult:
        """Run a command inside this process, with this folder as the working directory."""
        stdout, stderr = io.StringIO(), io.StringIO()
        exit_code = 0
        with (
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, {"REGARD_CACHE": self.environment["REGARD_CACHE"]}),
            mock.patch.object(sys, "argv", ["regard", *arguments]),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            try:
                main()
            except SystemExit as exited:
                exit_code = int(exited.code or 0)
        return CommandResult(exit_code, stdout.getvalue(), stderr.getvalue())

    def run(self, *arguments: str) -> str:
        """Run a command that must succeed; returns its stdout."""
        result = self.invoke(*arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def spawn(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command in a separate process."""
        return subprocess.Popen(
            [sys.executable, "-m", "regard", *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, name: str, content: str | bytes) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def recipe(self, name: str = "tiny.toml", /, **settings: Any) -> Path:
        """Write TINY with overrides: `recipe(train__lr="fast")`; None deletes a key."""
        return self.write(name, tomli_w.dumps(with_settings(TINY, settings)))


def with_settings(table: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = tomllib.loads(tomli_w.dumps(table))
    for path, value in settings.items():
        *tables, key = path.split("__")
        inner = copy
        for name in tables:
            inner = inner.setdefault(name, {})
        if value is None:
            del inner[key]
        else:
            inner[key] = value
    return copy


def generated_sentences(count: int = 400) -> list[str]:
    """Seeded random words in a fixed sentence pattern."""
    generator = random.Random(0)
    articles, nouns, verbs, adverbs = WORDS
    pattern = (articles, nouns, verbs, articles, nouns, adverbs)
    return [" ".join(map(generator.choice, pattern)) + "." for _ in range(count)]


def generated_text(count: int = 400) -> str:
    return "\n".join(generated_sentences(count)) + "\n"


def weights(run: Path) -> str:
    """SHA-256 of the final weights."""
    return sha256(run / "final" / "model.safetensors")


def flip_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x01
    file.write_bytes(content)


def file_digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(file.relative_to(folder)): sha256(file) for file in files}
