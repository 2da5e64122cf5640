"""A Ray cluster of several nodes on this machine, and a study that it trains."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import tomli_w
from tests.journeys.workspace import TINY, generated_text, with_settings

WHY_NOT = "Ray is not installed: pip install 'regard[ray]'"
SECONDS = 240
"Limit of one study."
STARTS = 3
"Of a node."


@contextmanager
def cluster(*nodes: Mapping[str, Any]) -> Iterator[Any]:
    """A head without slots, and these nodes of one slot each."""
    pytest.importorskip("ray", reason=WHY_NOT)
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args=head)
    try:
        for node in nodes:
            add_node(started, **node)
        yield started
    finally:
        started.shutdown()


def add_node(nodes: Any, **settings: Any) -> Any:
    """One slot. Ray gives a node 30 s to start, which a busy machine may not have."""
    for _ in range(STARTS - 1):
        with suppress(Exception):
            return nodes.add_node(num_cpus=1, **settings)
    return nodes.add_node(num_cpus=1, **settings)


def write_study(folder: Path, *, seeds: int = 2, **settings: Any) -> Path:
    (folder / "generated.txt").write_text(generated_text())
    (folder / "base.toml").write_text(tomli_w.dumps(with_settings(TINY, settings)))
    study = {
        "base": "base.toml",
        "seeds": list(range(seeds)),
        "variants": {"fast": {}, "slow": {"train.lr": 5e-3}},
    }
    (folder / "study.toml").write_text(tomli_w.dumps(study))
    return folder / "study.toml"


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"REGARD_CACHE": str(folder / "cache"), "OMP_WAIT_POLICY": "PASSIVE"}


def start_study(folder: Path, *options: str) -> subprocess.Popen[str]:
    """The command, as typed; its process group ends with it."""
    return subprocess.Popen(
        [sys.executable, "-m", "regard", "compare", "study.toml", *options],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_study(folder: Path, *options: str) -> tuple[int, str, str]:
    """Exit code, standard output and error."""
    process = start_study(folder, *options)
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, output, errors


def runs_trained_on(node: Any) -> list[str]:
    """Of a node, `variant/seed-0` of what it trains now."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    runs = []
    for child in raylet.children(recursive=True):
        try:
            if "worker" not in child.cmdline() or "regard" not in child.cmdline():
                continue
            found = Path(child.cwd()).glob("runs/study/*/seed-*")
            runs += [f"{run.parent.name}/{run.name}" for run in found]
        except psutil.Error:  # it ended meanwhile
            continue
    return runs
