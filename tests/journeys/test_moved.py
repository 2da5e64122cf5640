"""Runs, projects and data that moved: a run works from anywhere, and only on its documents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.in_process_trainings import in_process_trainings
from tests.journeys.workspace import Workspace, file_digests, generated_text

__all__ = ["in_process_trainings"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose recipes and data are in a folder of their own, trained from its root."""
    project = tmp_path_factory.mktemp("moved") / "project"
    at = Workspace(project)
    at.write("work/texts/generated.txt", generated_text())
    at.write("texts/generated.txt", "Another text, where the commands are typed.\n" * 50)
    at.recipe("work/tiny.toml", data__corpus="texts/generated.txt", train__max_steps=5)
    at.recipe(
        "work/adapted.toml",
        **{"name": "adapted", "init_from": "../runs/tiny", "model": None, "tokenizer": None},
        data__corpus="texts/generated.txt",
        adapt={"kind": "lora", "rank": 2},
        train__max_steps=2,
    )
    at.run("train", "work/tiny.toml")
    at.run("train", "work/adapted.toml")
    return project


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy in another place, while no path leads into the original by chance."""
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    hidden = original.rename(original.with_name("hidden"))
    try:
        yield copy
    finally:
        hidden.rename(original)


def corpus(at: Workspace, run: str) -> dict:
    return json.loads((at.folder / run / "results.json").read_text())["corpus"]["splits"]


def estimates(at: Workspace, *arguments: str) -> list:
    return json.loads(at.run("evaluate", *arguments, "--json"))["estimates"]


def test_paths_of_a_recipe_are_relative_to_it(original: Path) -> None:
    splits = corpus(Workspace(original), "runs/tiny")
    assert sum(split["documents"] for split in splits.values()) == 400, "not the 50 of texts/"


def test_a_project_that_moved_works(project: Path) -> None:
    at = Workspace(project)
    before = json.loads((project / "runs/tiny/results.json").read_text())["estimates"]
    assert [row["value"] for row in estimates(at, "runs/tiny")] == [row["value"] for row in before]
    at.run("generate", "runs/adapted", "the cat")
    (project / "runs/tiny/results.json").unlink()
    shutil.rmtree(project / "runs/tiny/final")
    at.run("train", "work/tiny.toml", "--resume")
    at.run("train", "runs/adapted", "--resume")
    assert (project / "runs/tiny/results.json").is_file()


def test_a_run_that_moved_alone_works_from_any_folder(original: Path, tmp_path: Path) -> None:
    away = tmp_path / "away" / "renamed"
    away.parent.mkdir()
    shutil.copytree(original / "runs/tiny", away)
    shutil.copytree(original / "runs/adapted", away.with_name("adapter"))
    at = Workspace(tmp_path)
    before = json.loads((away / "results.json").read_text())["estimates"]
    again = estimates(at, "away/renamed")
    assert [row["value"] for row in again] == [row["value"] for row in before]
    at.run("generate", str(away), "the cat")
    at.run("generate", "away/adapter", "the cat")
    at.run("report", "away/renamed")
    at.run("errors", "away/renamed")
    at.run("inspect", "away/renamed", "--text", "the cat sees", "--out", "inspected")
    assert "renamed" in at.run("runs", "--in", "away")
    digests = file_digests(away)
    at.run("train", "away/renamed", "--resume")
    assert file_digests(away) == digests, "finished: nothing to do"


def test_data_that_moved_is_given_and_checked(project: Path) -> None:
    at = Workspace(project)
    before = estimates(at, "runs/tiny")
    (project / "work/texts/generated.txt").rename(project / "elsewhere.txt")
    shutil.rmtree(project / "texts")
    refused = at.invoke("evaluate", "runs/tiny")
    assert refused.exit_code == 2
    assert "generated.txt" in refused.error
    assert estimates(at, "runs/tiny", "--data", "elsewhere.txt") == before
    assert estimates(at, "runs/tiny", "--set", "data.corpus=elsewhere.txt") == before

    at.write("other.txt", generated_text().replace("river", "lake"))
    other = at.invoke("evaluate", "runs/tiny", "--data", "other.txt")
    assert other.exit_code == 2
    assert "has changed" in other.error
    other = at.invoke("evaluate", "runs/tiny", "--set", "evaluate.documents=2")
    assert other.exit_code == 2
    assert "evaluate.documents" in other.error


@pytest.mark.long
@pytest.mark.usefixtures("in_process_trainings")
def test_a_study_that_moved_is_read_back(workspace: Workspace) -> None:
    workspace.write("work/texts/generated.txt", generated_text())
    workspace.recipe("work/tiny.toml", data__corpus="texts/generated.txt", train__max_steps=2)
    workspace.write(
        "work/study.toml",
        'base = "tiny.toml"\nseeds = [0]\nprobes = ["the cat"]\n[variants.a]\n[variants.b]\n'
        '"model.width" = 8\n',
    )
    workspace.run("compare", "work/study.toml")
    (workspace.folder / "work").rename(workspace.folder / "gone")
    (workspace.folder / "runs/study").rename(workspace.folder / "renamed")
    verdict = json.loads(workspace.run("compare", "renamed", "--json"))
    assert [variant["name"] for variant in verdict["variants"]] == ["a", "b"]
    assert (workspace.folder / "renamed/report.html").is_file()
    assert not (workspace.folder / "runs/study").exists()
