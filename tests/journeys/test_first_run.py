"""From a user's file to a trained, evaluated and reported model, as in the README."""

import csv
import io
import json
import tomllib
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


@pytest.fixture(autouse=True)
def without_charts() -> None:
    """These reports have their charts."""


def as_csv() -> str:
    """Generated reviews with an id and a rating."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["id", "stars", "review"])
    writer.writerows(
        [number, number % 5, text] for number, text in enumerate(generated_sentences())
    )
    return buffer.getvalue()


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

    printed = workspace.run("new", name, "--task", "language-model")
    assert f"regard train {recipe}" in printed
    written = tomllib.loads((workspace.folder / recipe).read_text(encoding="utf-8"))
    assert written["data"].get("text") == column

    forecast = json.loads(workspace.run("validate", recipe, *FEW_STEPS, "--json"))
    assert forecast["steps"] == 4
    assert forecast["recipe"]["data"]["corpus"] == name

    printed = workspace.run("train", recipe, *FEW_STEPS)
    assert "unigram" in printed
    assert "Kneser-Ney" in printed
    run = workspace.folder / "runs" / Path(name).stem
    page = (run / "report.html").read_text()
    assert "<html" in page
    assert "<svg" in page
    assert "width = 16" in (run / "recipe.toml").read_text()


def test_new_writes_names_as_they_are_and_counts_characters_of_chinese(
    workspace: Workspace,
) -> None:
    rows = [f"很好的电影我们都非常喜欢它的故事和演员{number}" for number in range(200)]
    column = "评论 (gekürzt auf die ersten zwanzig Zeichen), von der Redaktion"
    workspace.write("reviews.csv", f'"{column}"\n' + "\n".join(rows) + "\n")
    printed = workspace.run("new", "reviews.csv")
    assert repr(column) in printed
    settings = tomllib.loads((workspace.folder / "reviews.toml").read_text(encoding="utf-8"))
    assert settings["data"]["text"] == column
    assert settings["model"]["context"] >= 20


def test_new_does_not_overwrite_a_recipe(workspace: Workspace) -> None:
    workspace.run("new", "generated.txt")
    recipe = (workspace.folder / "generated.toml").read_bytes()
    result = workspace.invoke("new", "generated.txt")
    assert result.exit_code == 2
    assert "generated.toml exists already" in result.error
    assert (workspace.folder / "generated.toml").read_bytes() == recipe


def test_new_refuses_too_little_text(workspace: Workspace) -> None:
    workspace.write("note.txt", "three words only\n")
    result = workspace.invoke("new", "note.txt")
    assert result.exit_code == 2
    assert "note.txt" in result.error
    assert "too few" in result.error
    assert not (workspace.folder / "note.toml").exists()


def test_validate_trains_nothing(workspace: Workspace) -> None:
    workspace.recipe()
    printed = workspace.run("validate", "tiny.toml")
    assert "tiny.toml is valid" in printed
    assert "20 steps" in printed
    assert not (workspace.folder / "runs").exists()


def test_evaluate_reproduces_the_results_of_training(shared_workspace: Workspace) -> None:
    evaluated = json.loads(shared_workspace.run("evaluate", "runs/tiny", "--json"))
    results = json.loads((shared_workspace.folder / "runs/tiny/results.json").read_text())
    assert evaluated["weights"] == results["weights"]
    assert evaluated["estimates"] == results["estimates"]
    for split in ("dev", "test"):
        models = {row["of"] for row in evaluated["estimates"] if row["split"] == split}
        assert len(models) == 3, "the model and two baselines"
    assert all(row["low"] <= row["value"] <= row["high"] for row in evaluated["estimates"])


def test_evaluate_writes_to_out(trained: Workspace) -> None:
    trained.run("evaluate", "runs/tiny", "--out", "new/folder/results.json")
    assert json.loads((trained.folder / "new/folder/results.json").read_text())["estimates"]


def test_evaluate_needs_a_run_folder(shared_workspace: Workspace) -> None:
    result = shared_workspace.invoke("evaluate", "runs/tiny/final")
    assert result.exit_code == 2
    assert "without its recipe" in result.error
    assert "run folder" in result.error


def test_the_name_of_a_run_is_not_its_folder(shared_workspace: Workspace) -> None:
    for command in (("evaluate", "tiny"), ("errors", "tiny")):
        result = shared_workspace.invoke(*command)
        assert result.exit_code == 2
        assert result.error.endswith(f"Give its folder: {Path('runs/tiny')}.")


def test_report_is_rewritten_in_place_or_to_out(trained: Workspace) -> None:
    (trained.folder / "runs/tiny/report.html").unlink()
    assert trained.run("report", "runs/tiny").strip() == "runs/tiny/report.html"
    trained.run("report", "runs/tiny", "--out", "page.html")
    page = (trained.folder / "page.html").read_text()
    assert "tiny" in page
    assert (trained.folder / "runs/tiny/report.html").read_text() == page


def test_train_with_json_prints_only_results(workspace: Workspace) -> None:
    workspace.recipe(train__max_steps=2, samples__prompts=[])
    results = json.loads(workspace.run("train", "tiny.toml", "--json"))
    assert results["run"] == "runs/tiny"
    assert results["cost"]["steps"] == 2
