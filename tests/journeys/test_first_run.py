"""From a file of one's own to a trained, measured, reported model, in the words of the README."""

import csv
import io
import json
from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace, generated_sentences

FEW_STEPS = (
    *("--set", "train.max_steps=4"),
    *("--set", "train.evaluate_every=2"),
    *("--set", "train.threads=1"),
    *("--set", "model.width=16"),
    *("--set", "model.layers=1"),
)


def as_csv() -> str:
    """Generated reviews with an id and a grade beside the text."""
    written = io.StringIO()
    table = csv.writer(written)
    table.writerow(["id", "stars", "review"])
    table.writerows([number, number % 5, text] for number, text in enumerate(generated_sentences()))
    return written.getvalue()


def as_json_lines() -> str:
    rows = ({"id": number, "body": text} for number, text in enumerate(generated_sentences()))
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("poems.txt", "\n".join(generated_sentences()), None),
        ("reviews.csv", as_csv(), "review"),
        ("notes.jsonl", as_json_lines(), "body"),
    ],
)
def test_new_then_validate_then_train(
    workspace: Workspace, name: str, content: str, column: str | None
) -> None:
    workspace.write(name, content)
    recipe = f"{Path(name).stem}.toml"

    told = workspace.run("new", name)
    assert f"regard train {recipe}" in told
    assert (f'text = "{column}"' in told) == (column is not None)

    forecast = json.loads(workspace.run("validate", recipe, *FEW_STEPS, "--json"))
    assert forecast["steps"] == 4
    assert forecast["recipe"]["data"]["corpus"] == name

    told = workspace.run("train", recipe, *FEW_STEPS)
    assert "unigram" in told
    assert "Kneser-Ney" in told
    run = workspace.folder / "runs" / Path(name).stem
    assert "<html" in (run / "report.html").read_text()
    assert "width = 16" in (run / "recipe.toml").read_text()


def test_a_name_is_taken_from_nothing_that_exists(workspace: Workspace) -> None:
    workspace.run("new", "generated.txt")
    written = (workspace.folder / "generated.toml").read_bytes()
    result = workspace.invoke("new", "generated.txt")
    assert result.exit_code == 2
    assert "generated.toml exists already" in result.error
    assert (workspace.folder / "generated.toml").read_bytes() == written


def test_too_little_text_is_said_before_a_recipe_is_written(workspace: Workspace) -> None:
    workspace.write("note.txt", "three words only\n")
    result = workspace.invoke("new", "note.txt")
    assert result.exit_code == 2
    assert "note.txt" in result.error
    assert "too few" in result.error
    assert not (workspace.folder / "note.toml").exists()


def test_validate_trains_nothing(workspace: Workspace) -> None:
    workspace.recipe()
    told = workspace.run("validate", "tiny.toml")
    assert "tiny.toml is valid" in told
    assert "20 steps" in told
    assert not (workspace.folder / "runs").exists()


def test_evaluate_measures_what_training_measured(shared_workspace: Workspace) -> None:
    again = json.loads(shared_workspace.run("evaluate", "runs/tiny", "--json"))
    figures = json.loads((shared_workspace.folder / "runs/tiny/results.json").read_text())
    assert again["weights"] == figures["weights"]
    assert again["estimates"] == figures["estimates"]
    for part in ("dev", "test"):
        rivals = {row["of"] for row in again["estimates"] if row["split"] == part}
        assert len(rivals) == 3, "the model, and two baselines beside it"
    assert all(row["low"] <= row["value"] <= row["high"] for row in again["estimates"])


def test_evaluate_writes_where_it_is_told(trained: Workspace) -> None:
    trained.run("evaluate", "runs/tiny", "--out", "new/folder/results.json")
    assert json.loads((trained.folder / "new/folder/results.json").read_text())["estimates"]


def test_evaluate_needs_the_run_not_the_bare_model(shared_workspace: Workspace) -> None:
    result = shared_workspace.invoke("evaluate", "runs/tiny/final")
    assert result.exit_code == 2
    assert "without its recipe" in result.error
    assert "run folder" in result.error


def test_report_is_written_anew_or_elsewhere(trained: Workspace) -> None:
    (trained.folder / "runs/tiny/report.html").unlink()
    assert trained.run("report", "runs/tiny").strip() == "runs/tiny/report.html"
    trained.run("report", "runs/tiny", "--out", "page.html")
    page = (trained.folder / "page.html").read_text()
    assert "tiny" in page
    assert (trained.folder / "runs/tiny/report.html").read_text() == page


def test_train_as_json_prints_the_figures_alone(workspace: Workspace) -> None:
    workspace.recipe(train__max_steps=2, samples__prompts=[])
    figures = json.loads(workspace.run("train", "tiny.toml", "--json"))
    assert figures["run"] == "runs/tiny"
    assert figures["cost"]["steps"] == 2
