"""Results that changed after they were sealed are not published, by any command."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace

from regard.core.seal import SEAL


def flip(file: Path, *, old: bytes, new: bytes) -> None:
    """Damage as a disk does it: the date stays."""
    before, content = file.stat(), file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new, 1))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "command", [("report", "runs/tiny"), ("evaluate", "runs/tiny"), ("errors", "runs/tiny")]
)
def test_a_changed_perplexity_is_not_published(
    trained: Workspace, command: tuple[str, ...]
) -> None:
    flip(trained.folder / "runs/tiny/results.json", old=b'"value": ', new=b'"value": 9')
    result = trained.invoke(*command)
    assert result.exit_code == 2
    assert "results.json: is damaged: it is not what was written" in result.error
    assert "Traceback" not in result.error


@pytest.mark.parametrize("command", ["report", "evaluate", "errors"])
def test_without_its_seal_a_perplexity_is_not_published(trained: Workspace, command: str) -> None:
    """Else whoever wants another one needs only to delete the seal, and a disk may lose it."""
    home = trained.folder / "runs/tiny"
    (home / SEAL).unlink()
    flip(home / "results.json", old=b'"value": ', new=b'"value": 9')
    result = trained.invoke(command, "runs/tiny")
    assert result.exit_code == 2
    assert "results.json: cannot be vouched for: seal.json beside it is gone" in result.error


def test_regard_runs_lists_it_as_damaged(trained: Workspace) -> None:
    flip(trained.folder / "runs/tiny/results.json", old=b'"value": ', new=b'"value": 9')
    result = trained.invoke("runs")
    assert "damaged" in result.stdout + result.stderr


def test_report_says_that_curves_are_not_shown(trained: Workspace) -> None:
    events = trained.folder / "runs/tiny/events.jsonl"
    flip(events, old=b'"loss": ', new=b'"loss": 9')
    assert trained.invoke("report", "runs/tiny").exit_code == 0
    page = (trained.folder / "runs/tiny/report.html").read_text(encoding="utf-8")
    assert "events.jsonl is damaged: it is not what was written" in page
    assert "its curves and samples are not shown" in page


def test_an_edited_recipe_is_told_as_an_edit(trained: Workspace) -> None:
    recipe = trained.folder / "runs/tiny/recipe.toml"
    recipe.write_text(recipe.read_text("utf-8").replace("width = 16", "width = 32"), "utf-8")
    later = (trained.folder / "runs/tiny" / SEAL).stat().st_mtime + 60
    os.utime(recipe, (later, later))
    for command in ("report", "evaluate"):
        result = trained.invoke(command, "runs/tiny")
        assert result.exit_code == 2
        assert "recipe.toml: was edited after it was sealed" in result.error


def test_a_run_continued_without_its_results_is_sealed_anew(trained: Workspace) -> None:
    """The way out that the error names: delete the results, and resume."""
    home = trained.folder / "runs/tiny"
    flip(home / "results.json", old=b'"value": ', new=b'"value": 9')
    before = (home / "items" / "dev.jsonl").read_bytes()
    (home / "results.json").unlink()
    assert trained.invoke("train", "runs/tiny", "--resume").exit_code == 0
    assert trained.invoke("report", "runs/tiny").exit_code == 0
    assert (home / "items" / "dev.jsonl").read_bytes() == before


def test_a_report_does_not_bring_a_deleted_run_back(
    trained: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may delete the run while its page is rendered."""
    run = trained.folder / "runs/tiny"

    def page_of_a_run_deleted_meanwhile(_: object) -> str:
        shutil.rmtree(run)
        return "<p>page</p>"

    monkeypatch.setattr("regard.reports.run_report.report_html", page_of_a_run_deleted_meanwhile)
    result = trained.invoke("report", "runs/tiny")
    assert result.exit_code == 2
    assert "does not exist any more" in result.error
    assert not run.exists()
