"""Runs initialised from other runs: a pretraining recipe is trained first, and only once."""

from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace, file_digests, weights

INHERITED = {"model": None, "tokenizer": None}
"Left out of a recipe with an initial model."


def modified_times(run: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in run.rglob("*")}


def test_pretraining_recipe_is_trained_once(workspace: Workspace) -> None:
    runs = workspace.folder / "runs"
    few_steps = {"train__max_steps": 2}
    second = {"name": "second", "init_from": "first.toml", "train__seed": 1}
    workspace.recipe("first.toml", name="first", **few_steps)
    workspace.recipe("second.toml", **second, **few_steps, **INHERITED)

    assert "first.toml is trained first" in workspace.run("validate", "second.toml")
    assert not runs.exists()

    workspace.run("train", "second.toml")
    (first,) = (run for run in runs.iterdir() if run.name.startswith("first"))
    before = modified_times(first)
    assert weights(runs / "second") != weights(first)

    workspace.run("train", "second.toml", "--out", "runs/again")
    assert modified_times(first) == before, "reused, not retrained"
    assert weights(runs / "again") == weights(runs / "second")


@pytest.mark.long
def test_edited_pretraining_recipe_is_trained_again(workspace: Workspace) -> None:
    runs = workspace.folder / "runs"
    workspace.recipe(
        "second.toml", name="second", init_from="first.toml", train__max_steps=1, **INHERITED
    )
    workspace.recipe("first.toml", name="first", train__max_steps=1)
    workspace.run("train", "second.toml")
    workspace.recipe("first.toml", name="first", train__max_steps=2)
    workspace.run("train", "second.toml", "--out", "runs/again")
    assert len([run for run in runs.iterdir() if run.name.startswith("first")]) == 2
    assert weights(runs / "again") != weights(runs / "second")


def test_init_from_a_run_folder(trained: Workspace) -> None:
    before = file_digests(trained.folder / "runs/tiny")
    trained.recipe("next.toml", name="next", init_from="runs/tiny", train__max_steps=2, **INHERITED)
    trained.run("train", "next.toml")
    assert file_digests(trained.folder / "runs/tiny") == before
    config = "final/config.json"
    initial, continued = trained.folder / "runs/tiny", trained.folder / "runs/next"
    assert (continued / config).read_text() == (initial / config).read_text()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"init_from": "runs/tiny", "model__width": 32},
            ("model.width: 32 here, 16 there", "[model]"),
        ),
        ({"init_from": "runs/tiny/items"}, ("init_from = 'runs/tiny/items'", "runs/mini-gpt")),
        ({"init_from": "runs/none"}, ("init_from = 'runs/none'", "pretrain.toml")),
    ],
    ids=["another model", "not the run itself", "no run"],
)
def test_invalid_initial_model_is_refused(
    trained: Workspace, settings: dict[str, object], expected: tuple[str, ...]
) -> None:
    trained.recipe("next.toml", name="next", **settings)
    result = trained.invoke("train", "next.toml")
    assert result.exit_code == 2
    for phrase in expected:
        assert phrase in result.error
    assert not (trained.folder / "runs/next").exists()
