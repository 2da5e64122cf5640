"""Kernel libraries built with AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from regard.core.process import cpu
from regard.ops.cpu import library

ROOT = Path(__file__).parents[3]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g")
TIMEOUT = 600


class CannotBuildError(Exception):
    """Why there is no such library here."""


@dataclass(frozen=True)
class Sanitized:
    """A library, and the runtime that a process has to preload."""

    name: str
    file: Path
    runtime: Path

    def command(self, *arguments: str) -> list[str]:
        """Of a process that calls its kernels: `random_calls.py`."""
        module = "tests.ops.cpu.random_calls"
        return [sys.executable, "-m", module, self.name, str(self.file), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "LD_PRELOAD": str(self.runtime),
            "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }


def build(name: str, folder: Path) -> Sanitized:
    """From the sources and by the options of the installation, which pyproject.toml declares."""
    if cpu.simd_capability() not in library.SUPPORTED_ON[name]:
        raise CannotBuildError(f"this CPU does not support {name}")
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise CannotBuildError("there is no C compiler")
    answer = [compiler, "-print-file-name=libasan.so"]
    runtime = Path(subprocess.run(answer, capture_output=True, text=True).stdout.strip() or ".")
    if not (runtime.is_absolute() and runtime.is_file()):
        raise CannotBuildError("the compiler has no AddressSanitizer that can be preloaded")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    modules = project["tool"]["setuptools"]["ext-modules"]
    module = next(one for one in modules if one["name"].endswith(f"_{name}"))
    options = [option for option in module["extra-compile-args"] if not option.startswith("-O")]
    command = [compiler, "-shared", "-fPIC", *options, *SANITIZERS, "-Wmissing-prototypes"]
    sources = [str(ROOT / source) for source in module["sources"]]
    file = folder / f"{name}.so"
    built = subprocess.run(
        [*command, *sources, "-o", str(file)], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert built.returncode == 0, built.stderr
    assert "missing-prototypes" not in built.stderr, built.stderr
    return Sanitized(name, file, runtime)
