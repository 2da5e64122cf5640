"""Several processes that train together, started as a launcher does, but without torchrun's own
second of start and import."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[3]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_ranks(
    arguments: Sequence[str],
    *,
    size: int,
    port: int | None = None,
    of_rank: Mapping[int, Sequence[str]] = MappingProxyType({}),
    cwd: Path = ROOT,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> list[subprocess.Popen[str]]:
    """`python ARGUMENTS` as each of `size` ranks, some with more arguments of their own."""
    port = port or free_port()
    common = {
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "PYTHONPATH": str(ROOT),
    }
    return [
        subprocess.Popen(
            [sys.executable, *arguments, *of_rank.get(rank, ())],
            cwd=cwd,
            env={**os.environ, **variables, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def finish(
    ranks: Sequence[subprocess.Popen[str]], *, seconds: float = 170
) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each; none is left running."""
    try:
        outputs = [rank.communicate(timeout=seconds) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(rank.returncode, *output) for rank, output in zip(ranks, outputs, strict=True)]
