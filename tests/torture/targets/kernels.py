"""C kernels with random shapes, in memory that ends where they have to."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.ops.cpu.sanitized import ROOT, CannotBuildError, Sanitized, build
from tests.torture.harness import Failure, Target

from regard.ops.cpu import library


def make(home: Path) -> Sequence[Sanitized]:
    built = []
    for name in library.SUPPORTED_ON:
        try:
            built.append(build(name, home))
        except CannotBuildError as reason:
            print(f"  {name}: {reason}", flush=True)
    return tuple(built)


@cache
def server(sanitized: Sanitized) -> subprocess.Popen[str]:
    """One process for the trials of a batch: to start it takes seconds."""
    return subprocess.Popen(
        sanitized.command("serve"),
        env=sanitized.environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trial(built: Sequence[Sanitized], generator: random.Random, folder: Path) -> str:
    if not built:
        return "not on this system"
    sanitized = generator.choice(built)
    calls = server(sanitized)
    assert calls.stdin is not None
    assert calls.stdout is not None
    assert calls.stderr is not None
    try:
        calls.stdin.write(f"{generator.random()}\n")
        calls.stdin.flush()
        called = calls.stdout.readline().strip()
    except BrokenPipeError:
        called = ""
    if not called:
        server.cache_clear()
        raise Failure("crashed", f"{sanitized.name}: {calls.stderr.read()[:1500]}")
    return f"{sanitized.name}: its own memory"


TARGET = Target(
    "kernels",
    "C kernels under AddressSanitizer and UBSan, built for AVX2 and AVX-512, with random shapes",
    10_000,
    trial,
    make,
    seconds=90,
    batch=500,
)
