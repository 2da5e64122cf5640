"""A run that starts from another: made first where it has to be, and only once."""

from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace, file_digests, weights

TAKEN_OVER = {"model": None, "tokenizer": None}
"A recipe that starts from another leaves these out."


def stamps(run: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in run.rglob("*")}


def test_a_recipe_to_start_from_is_run_once(workspace: Workspace) -> None:
    runs = workspace.folder / "runs"
    workspace.recipe("first.toml", name="first")
    workspace.recipe("second.toml", name="second", start="first.toml", train__seed=1, **TAKEN_OVER)

    assert "first.toml is trained first" in workspace.run("validate", "second.toml")
    assert not runs.exists()

    workspace.run("train", "second.toml")
    (first,) = (run for run in runs.iterdir() if run.name.startswith("first"))
    made = stamps(first)
    assert weights(runs / "second") != weights(first)

    workspace.run("train", "second.toml", "--out", "runs/again")
    assert stamps(first) == made, "its result was there, so it was not touched"
    assert weights(runs / "again") == weights(runs / "second")


@pytest.mark.long
def test_an_edited_first_recipe_is_another_run(workspace: Workspace) -> None:
    runs = workspace.folder / "runs"
    workspace.recipe(
        "second.toml", name="second", start="first.toml", train__max_steps=1, **TAKEN_OVER
    )
    workspace.recipe("first.toml", name="first", train__max_steps=1)
    workspace.run("train", "second.toml")
    workspace.recipe("first.toml", name="first", train__max_steps=2)
    workspace.run("train", "second.toml", "--out", "runs/again")
    assert len([run for run in runs.iterdir() if run.name.startswith("first")]) == 2
    assert weights(runs / "again") != weights(runs / "second")


def test_starting_from_a_run_folder(trained: Workspace) -> None:
    before = file_digests(trained.folder / "runs/tiny")
    trained.recipe("on.toml", name="on", start="runs/tiny", train__max_steps=2, **TAKEN_OVER)
    trained.run("train", "on.toml")
    assert file_digests(trained.folder / "runs/tiny") == before
    config = "final/config.json"
    begun, gone_on = trained.folder / "runs/tiny", trained.folder / "runs/on"
    assert (gone_on / config).read_text() == (begun / config).read_text()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"start": "runs/tiny", "model__width": 32}, ("model.width: 32 here, 16 there", "[model]")),
        ({"start": "runs/tiny/items"}, ("start = 'runs/tiny/items'", "runs/mini-gpt")),
        ({"start": "runs/none"}, ("start = 'runs/none'", "pretrain.toml")),
    ],
    ids=["another model", "not the run itself", "no run"],
)
def test_what_cannot_be_started_from(
    trained: Workspace, settings: dict[str, object], says: tuple[str, ...]
) -> None:
    trained.recipe("on.toml", name="on", **settings)
    result = trained.invoke("train", "on.toml")
    assert result.exit_code == 2
    for words in says:
        assert words in result.error
    assert not (trained.folder / "runs/on").exists()
