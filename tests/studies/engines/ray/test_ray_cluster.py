"""A real cluster: what happens to its nodes changes no bit of a study's outcome."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.workspace import weights
from tests.studies.engines.ray.local_cluster import (
    SECONDS,
    add_node,
    cluster,
    run_study,
    runs_trained_on,
    start_study,
    write_study,
)

from regard.runs.locking.lock import is_locked

LONG = {"train__max_steps": 240, "train__checkpoint_every": 40}
"Seconds of training, so that a node can be killed in the middle."
NOT_COMPARED = {"seconds", "tokens_per_second", "peak_memory_bytes", "date", "efficiency"}
"Times and memory; everything else is the same to the bit."
HOW_AUDITED = {"audited", "checked", "sentence"}
"Of an audit: in full, or that of another seed if one had ended by then."


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = NOT_COMPARED | (HOW_AUDITED if "checked" in value else set())
        return {key: without_times(one) for key, one in value.items() if key not in left_out}
    if isinstance(value, list):
        return [without_times(one) for one in value]
    return value


def outcome(folder: Path) -> Any:
    return without_times(json.loads((folder / "runs/study/outcome.json").read_bytes()))


def all_weights(folder: Path) -> dict[str, str]:
    runs = sorted((folder / "runs/study").glob("*/seed-*"))
    return {str(run.relative_to(folder)): weights(run) for run in runs}


def kill_a_node_and_add_one(nodes: Any, folder: Path) -> str:
    """Once a checkpoint has arrived, the node that trains it dies; the run."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.02)
        for node in list(nodes.worker_nodes):
            for run in runs_trained_on(node):
                home = folder / "runs/study" / run
                if list(home.glob("checkpoints/step-*")) and not (home / "results.json").exists():
                    nodes.remove_node(node, allow_graceful=False)
                    add_node(nodes)
                    return run
    raise AssertionError("no checkpoint arrived")


def check_a_killed_node_changes_nothing(folder: Path) -> None:
    alone, together = folder / "alone", folder / "together"
    for home in (alone, together):
        home.mkdir()
        write_study(home, **LONG)
    code, _, errors = run_study(alone, "--jobs", "1")
    assert code == 0, errors
    with cluster({}, {}, {}) as nodes:
        study = start_study(together, "--engine", "ray", "--address", nodes.address)
        try:
            killed = kill_a_node_and_add_one(nodes, together)
            output, errors = study.communicate(timeout=SECONDS)
        finally:
            study.kill()
    assert study.returncode == 0, errors
    assert all_weights(together) == all_weights(alone)
    assert outcome(together) == outcome(alone)
    events = (together / "runs/study" / killed / "events.jsonl").read_text()
    assert '"resume"' in events, "it went on from its checkpoint, on another node"
    assert "3 nodes, 3 slots" in errors
    assert not is_locked(together / "runs/study" / killed)
    assert "Raylet" not in output + errors, "Ray says nothing of its own"


def test_a_killed_node_and_a_new_one_change_no_bit(tmp_path: Path) -> None:
    check_a_killed_node_changes_nothing(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("attempt", range(10))
def test_a_killed_node_changes_no_bit_ten_times_out_of_ten(tmp_path: Path, attempt: int) -> None:
    check_a_killed_node_changes_nothing(tmp_path)


@pytest.mark.long
def test_a_killed_driver_goes_on_with_the_same_command(tmp_path: Path) -> None:
    write_study(tmp_path, **LONG)
    runs = tmp_path / "runs/study"
    with cluster({}, {}) as nodes:
        command = ("--engine", "ray", "--address", nodes.address)
        study = start_study(tmp_path, *command)
        wait_for(lambda: list(runs.glob("*/seed-*/checkpoints/step-*")))
        study.kill()
        study.communicate()
        before = {run for run in runs.glob("*/seed-*") if (run / "results.json").exists()}
        code, _, errors = run_study(tmp_path, *command)
    assert code == 0, errors
    assert len(before) < 4
    resumed = [run for run in runs.glob("*/seed-*") if '"resume"' in events_of(run)]
    assert resumed, "at least one went on from its checkpoint"
    assert len(all_weights(tmp_path)) == 4


@pytest.mark.long
def test_nodes_write_to_a_shared_folder_themselves(tmp_path: Path) -> None:
    alone, together, storage = tmp_path / "alone", tmp_path / "together", tmp_path / "storage"
    for home in (alone, together, storage):
        home.mkdir()
    for home in (alone, together):
        write_study(home)
    assert run_study(alone)[0] == 0
    with cluster({}, {}) as nodes:
        command = ("--engine", "ray", "--address", nodes.address, "--storage", str(storage))
        code, output, errors = run_study(together, *command)
    assert code == 0, errors
    assert str(storage / "study/report.html") in output
    trained = [weights(run) for run in sorted(storage.glob("study/*/seed-*"))]
    assert trained == list(all_weights(alone).values())
    assert not (together / "runs").exists()
    origin = json.loads(next(storage.glob("study/*/seed-0/origin.json")).read_bytes())
    assert origin["working_directory"] == str(together)


@pytest.mark.long
def test_a_node_without_regard_trains_nothing_and_is_named(tmp_path: Path) -> None:
    write_study(tmp_path, seeds=1)
    (tmp_path / "none/regard").mkdir(parents=True)
    (tmp_path / "none/regard/__init__.py").write_text("raise ImportError('no regard')")
    without = {"env_vars": {"PYTHONPATH": str(tmp_path / "none")}}
    with cluster(without) as nodes:
        command = ("--engine", "ray", "--address", nodes.address)
        code, _, errors = run_study(tmp_path, *command)
        assert code == 2
        last = errors.strip().rpartition("\n")[2]
        assert "takes no training: regard cannot be imported there (no regard)" in last
        assert "Traceback" not in errors
        add_node(nodes)
        code, output, errors = run_study(tmp_path, *command)
    assert code == 0, errors
    assert "takes no training" in output
    assert len(all_weights(tmp_path)) == 2


def events_of(run: Path) -> str:
    file = run / "events.jsonl"
    return file.read_text() if file.exists() else ""


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
