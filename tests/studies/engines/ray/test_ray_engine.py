"""What the Ray engine makes of what nodes say; Ray itself is not what is tested here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.workspace import TINY
from tests.studies.engines.ray.fake_cluster import (
    FakeCluster,
    broken,
    checkpoint,
    failed,
    finished,
    gone,
)

from regard.core.errors import UserError
from regard.runs.locking.lock import RunLockedError, is_locked, lock_run
from regard.runs.recipe import Recipe
from regard.studies.engines.job import Job, JobResult
from regard.studies.engines.ray import engine as engine_module
from regard.studies.engines.ray.engine import RayEngine
from regard.studies.engines.ray.folder_transfer import encode

RECIPE = Recipe.from_table(TINY)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine_module, "NODES_SECONDS", 0.0)
    monkeypatch.setattr(engine_module, "STOP_SECONDS", 0.2)
    (tmp_path / "generated.txt").write_text("text\n")
    (tmp_path / "runs/s/recipes").mkdir(parents=True)
    return tmp_path


def jobs(count: int) -> list[Job]:
    return [Job("a", seed, RECIPE, Path(f"runs/s/a/seed-{seed}")) for seed in range(count)]


def run(cluster: FakeCluster, count: int = 1, **settings: Any) -> tuple[list[JobResult], RayEngine]:
    engine = RayEngine(cluster, recipes=Path("runs/s/recipes"), **settings)  # type: ignore[arg-type]
    with engine:
        return engine.run_jobs(jobs(count)), engine


def reasons(results: list[JobResult]) -> list[str]:
    return [result.reason for result in results]


def test_finished_runs_arrive_and_locks_are_given_back(here):
    seen = []

    def training(node: str, spec: Any) -> Iterator[bytes]:
        seen.append(is_locked(Path(spec["folder"])))
        yield from finished()

    cluster, told = FakeCluster(["1", "2"], training), []
    results, engine = run(cluster, 5, on_study=told.append)
    assert reasons(results) == [""] * 5
    assert all(job.is_finished for job in jobs(5))
    assert seen == [True] * 5, "the driver holds the lock of what it writes"
    assert not any(is_locked(job.folder) for job in jobs(5))
    assert (told[-1].done, told[-1].total, told[-1].slots, told[-1].nodes) == (5, 5, 2, 2)
    assert engine.efficiency().nodes == 2
    assert cluster.closed


def test_a_node_that_dies_costs_what_came_after_its_last_checkpoint(here):
    runs = []

    def training(node: str, spec: Any) -> Iterator[bytes]:
        runs.append([name for name, *_ in spec["run"]])
        if len(runs) == 1:
            yield from checkpoint(7)
            yield from gone()
        yield from finished('{"event": "step", "step": 9, "loss": 1.0, "seconds": 9.0}\n')

    [result], _ = run(FakeCluster(["1", "2"], training))
    assert runs == [[], ["events.jsonl", "recipe.toml"]], "its folder travels to the next node"
    assert (result.reason, result.seconds) == ("", 9.0)


def test_a_training_under_which_every_process_dies_ends_and_others_go_on(here):
    def training(node: str, spec: Any) -> Iterator[bytes]:
        yield from gone() if spec["name"] == "a-seed0" else finished()

    results, _ = run(FakeCluster(["1", "2"], training), 3)
    assert "its process was killed 5 times" in results[0].reason
    assert reasons(results)[1:] == ["", ""]


def test_a_training_that_fails_everywhere_is_reported_once_and_others_go_on(here):
    def training(node: str, spec: Any) -> Iterator[bytes]:
        yield from failed("train: no") if spec["name"] == "a-seed0" else finished()

    lines = []
    cluster = FakeCluster(["1", "2", "3"], training)
    results, engine = run(cluster, 3, on_job=lambda *line: lines.append((line[0], line[1].seed)))
    assert reasons(results)[1:] == ["", ""]
    first, second = (node for node, name in cluster.tried if name == "a-seed0")
    assert first != second
    assert results[0].reason == (f"node 10.0.0.{first}: train: no; node 10.0.0.{second}: train: no")
    assert lines.count(("failed", 0)) == 1
    assert engine.remarks == [], "no node is to blame"


def test_a_training_that_diverged_would_again(here):
    def training(node: str, spec: Any) -> Iterator[bytes]:
        from tests.studies.engines.ray.fake_cluster import folder

        events = '{"event": "divergence", "step": 3, "text": "the loss is not finite"}\n'
        yield from folder({"events.jsonl": events})
        yield from failed("train: the loss is not finite")

    cluster = FakeCluster(["1", "2"], training)
    [result], _ = run(cluster)
    assert result.reason.startswith("the loss is not finite; to train it again, delete")
    assert len(cluster.tried) == 1


def test_a_node_with_a_full_disk_is_left_out_and_nothing_is_lost(here):
    full = "disk: no space left for x. What was saved before is intact."

    def training(node: str, spec: Any) -> Iterator[bytes]:
        yield from failed(full) if node == "1" else finished()

    cluster = FakeCluster(["1", "2"], training)
    results, engine = run(cluster, 8)
    assert reasons(results) == [""] * 8
    assert engine.remarks == [f"node 10.0.0.1 takes no training any more: {full}"]
    assert [node for node, _ in cluster.tried][-3:] == ["2"] * 3


def test_a_node_without_regard_is_left_out_and_said(here):
    def training(node: str, spec: Any) -> Iterator[bytes]:
        if node == "1":
            yield encode({"kind": "unusable", "reason": "regard cannot be imported there"})
            return
        yield from finished()

    results, engine = run(FakeCluster(["1", "2"], training), 3)
    assert reasons(results) == ["", "", ""]
    assert engine.remarks == ["node 10.0.0.1 takes no training: regard cannot be imported there"]


def test_without_a_node_that_can_train_it_is_one_sentence(here):
    def training(node: str, spec: Any) -> Iterator[bytes]:
        yield encode({"kind": "unusable", "reason": "its regard has version 0.0.9, not 0.1.0"})

    cluster = FakeCluster(["1"], training)
    with pytest.raises(UserError, match="takes no training: its regard has version"):
        run(cluster, 2)
    assert cluster.closed
    assert not is_locked(jobs(1)[0].folder)


def test_a_failure_of_the_way_there_names_the_node(here):
    cluster = FakeCluster(["1"], lambda node, spec: broken("ValueError: something of Ray"))
    [result], _ = run(cluster)
    assert result.reason == "node 10.0.0.1: ValueError: something of Ray"


def test_a_training_that_no_node_can_hold_is_not_sent(here):
    cluster = FakeCluster(["1"], lambda node, spec: finished())
    cluster.memory = 1000.0
    [result], _ = run(cluster)
    assert "it takes at least" in result.reason
    assert "the largest node has" in result.reason
    assert cluster.tried == []


def test_a_run_that_another_process_writes_is_waited_for(here):
    [job] = jobs(1)
    cluster = FakeCluster(["1"], lambda node, spec: finished())
    lock = lock_run(job.folder, "training")
    lock.__enter__()
    said = []

    def on_job(state: str, one: Any, detail: str) -> None:
        said.append((state, detail))
        if detail == "in another process" and state == "running":
            assert cluster.tried == []
            lock.__exit__(None, None, None)

    [result], _ = run(cluster, on_job=on_job)
    assert result.reason == ""
    assert said[0] == ("running", "in another process")


def test_ctrl_c_takes_what_trainings_save_and_gives_locks_back(here):
    def training(node: str, spec: Any) -> Iterator[bytes]:
        while not cluster.stopped:
            yield encode({"kind": "progress", "text": "step 3"})
        yield from checkpoint(3)
        yield from failed("stopped.", code=130)

    def on_job(state: str, job: Any, detail: str) -> None:
        if detail == "step 3":
            raise KeyboardInterrupt

    cluster = FakeCluster(["1"], training)
    with pytest.raises(KeyboardInterrupt):
        run(cluster, on_job=on_job)
    [job] = jobs(1)
    assert '"step": 3' in (job.folder / "events.jsonl").read_text()
    assert not is_locked(job.folder)


def test_two_drivers_of_one_run_do_not_both_write(here):
    [job] = jobs(1)

    def training(node: str, spec: Any) -> Iterator[bytes]:
        with (
            pytest.raises(RunLockedError, match="another process is writing"),
            lock_run(job.folder, "training"),
        ):
            pass
        yield from finished()

    assert reasons(run(FakeCluster(["1"], training))[0]) == [""]
