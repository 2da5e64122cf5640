"""While a process writes to a run, every command that would write is refused and names it."""

import pytest
from tests.journeys.workspace import Workspace, file_digests
from tests.runs.locking.other_process import held_by_another_process

COMMANDS = (
    ("train", "tiny.toml"),
    ("train", "runs/tiny", "--resume"),
    ("evaluate", "runs/tiny"),
    ("report", "runs/tiny"),
    ("runs", "tiny", "--delete", "--yes"),
)


@pytest.mark.parametrize("purpose", ["training", "deletion"])
def test_every_writer_is_refused_and_told_the_first(trained: Workspace, purpose: str) -> None:
    run = trained.folder / "runs/tiny"
    before = file_digests(run)
    with held_by_another_process(run, purpose) as holder:
        for command in COMMANDS:
            result = trained.invoke(*command)
            assert result.exit_code == 2, command
            assert str(holder.pid) in result.error, command
            assert purpose in result.error, command
        trained.run("report", "runs/tiny", "--out", "meanwhile.html")
        trained.run("generate", "runs/tiny", "the cat")
    assert file_digests(run) == before
    trained.run("runs", "tiny", "--delete", "--yes")
    assert not run.exists()


def test_evaluations_run_beside_each_other(trained: Workspace) -> None:
    with held_by_another_process(trained.folder / "runs/tiny", "evaluation"):
        trained.run("evaluate", "runs/tiny")
        assert trained.invoke("runs", "tiny", "--delete", "--yes").exit_code == 2
