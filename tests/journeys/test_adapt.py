"""Adapting a trained model: only adapted weights are saved, counted, and loaded onto the base."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open
from tests.journeys.workspace import Workspace, file_digests, generated_sentences

import regard
from regard.core.files import sha256

LABELLED = "text,label\n" + "".join(
    f"{sentence},{'live' if any(w in sentence for w in ('cat', 'dog', 'bird')) else 'dead'}\n"
    for sentence in generated_sentences()
)
ENCODER = {"model__family": "encoder", "model__layers": 2, "name": "first"}
ADAPTED = {
    "name": "adapted",
    "init_from": "first.toml",
    "model": None,
    "tokenizer": None,
    "samples": None,
    "data__corpus": "rows.csv",
    "task__kind": "classification",
}
KINDS = (
    "full",
    "lora",
    "prompt",
    "none",
    *(pytest.param(kind, marks=pytest.mark.long) for kind in ("head", "top", "bias", "prefix")),
)
RUN = "runs/adapted"


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with a trained encoder and labelled rows."""
    workspace = Workspace(tmp_path_factory.mktemp("adapt"))
    workspace.write("generated.txt", "\n".join(generated_sentences()) + "\n")
    workspace.write("rows.csv", LABELLED)
    workspace.recipe("first.toml", **ENCODER)
    workspace.run("train", "first.toml", "--out", "runs/first")
    return workspace


@pytest.fixture
def workspace(pretrained: Workspace, tmp_path: Path) -> Workspace:
    folder = tmp_path / "copy"
    shutil.copytree(pretrained.folder, folder)
    return Workspace(folder)


def write_recipe(workspace: Workspace, **settings: object) -> None:
    length = {"adapt__length": 4} if settings.get("adapt__kind") in ("prompt", "prefix") else {}
    few_steps = {"train__max_steps": 4, "train__checkpoint_every": 2, "train__evaluate_every": 2}
    workspace.recipe("adapted.toml", **{**ADAPTED, **few_steps, **length, **settings})


def saved_weights(run: Path) -> dict[str, str]:
    return {file.name: sha256(file) for file in (run / "final").glob("*.safetensors")}


@pytest.mark.parametrize("kind", KINDS)
def test_adapter_trains_saves_only_its_weights_and_evaluates_the_same_when_loaded(
    workspace: Workspace, kind: str
) -> None:
    write_recipe(workspace, adapt__kind=kind)
    base = file_digests(workspace.folder / "runs/first")
    workspace.run("train", "adapted.toml")
    run = workspace.folder / RUN
    assert file_digests(workspace.folder / "runs/first") == base, "the base is read-only"
    results = json.loads((run / "results.json").read_text())
    ledger = results["ledger"]
    assert ledger["total"] == sum(row["count"] for row in ledger["rows"])
    assert ledger["total"] == sum(term["value"] for term in ledger["terms"])
    assert (run / "final/model.safetensors").is_file() == (kind == "full")
    if kind != "full":
        with safe_open(run / "final/adapter_model.safetensors", framework="pt") as file:
            saved = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118
        head = 0 if kind == "none" else 2 * 16 + 2
        assert saved == ledger["total"] - head
    evaluated = json.loads(workspace.run("evaluate", RUN, "--json"))
    assert evaluated["estimates"] == results["estimates"]
    assert f"adapt.kind = '{kind}'" in workspace.run("ledger", RUN)
    assert "Trained parameters" in (run / "report.html").read_text()


def test_resumed_adaptation_ends_with_the_same_bits(workspace: Workspace) -> None:
    write_recipe(workspace, adapt__kind="lora", adapt__dropout=0.1)
    workspace.run("train", "adapted.toml")
    uninterrupted = saved_weights(workspace.folder / RUN)
    run = workspace.folder / RUN
    shutil.rmtree(run / "final")
    (run / "results.json").unlink()
    for later in sorted((run / "checkpoints").iterdir())[1:]:
        shutil.rmtree(later)
    workspace.run("train", "adapted.toml", "--resume")
    assert saved_weights(run) == uninterrupted


def test_another_base_is_refused_and_a_moved_base_can_be_passed(workspace: Workspace) -> None:
    write_recipe(workspace, adapt__kind="lora")
    workspace.run("train", "adapted.toml")
    workspace.write("mine.csv", "text\nthe cat sees one river today.\n")
    predictions = workspace.run("predict", RUN, "mine.csv", "--json")
    (workspace.folder / "runs/first").rename(workspace.folder / "elsewhere")
    result = workspace.invoke("predict", RUN, "mine.csv")
    assert result.exit_code == 2
    assert "holds an adapter for the model runs/first" in result.error
    assert "--base FOLDER" in result.error
    assert workspace.run("predict", RUN, "mine.csv", "--json", "--base", "elsewhere") == predictions

    workspace.recipe("first.toml", **ENCODER, train__seed=1, train__max_steps=1)
    workspace.run("train", "first.toml", "--out", "runs/first")
    result = workspace.invoke("predict", RUN, "mine.csv")
    assert result.exit_code == 2
    assert "it was trained on another model" in result.error


def test_lora_run_can_be_an_initial_model_and_a_prompt_cannot(workspace: Workspace) -> None:
    for kind in ("lora", "prompt"):
        write_recipe(workspace, adapt__kind=kind)
        workspace.run("train", "adapted.toml", "--out", f"runs/{kind}")
    write_recipe(workspace, init_from="runs/lora", adapt__kind="head", train__max_steps=0)
    workspace.run("train", "adapted.toml")
    with contextlib.chdir(workspace.folder):
        merged = regard.load("runs/adapted").saved.body
        unmerged = regard.load("runs/lora").saved.body
    names = {name for name, _ in merged.named_parameters()}
    assert not any("lora" in name for name in names)
    assert any("lora" in name for name, _ in unmerged.named_parameters())

    write_recipe(workspace, init_from="runs/prompt", adapt__kind="head")
    result = workspace.invoke("train", "adapted.toml", "--out", "runs/on")
    assert result.exit_code == 2
    assert "adapted by prompt tuning" in result.error


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"adapt__kind": "lora", "adapt__targets": ["nothing*"]}, ("nothing*", "attention.query")),
        ({"adapt__kind": "prompt", "adapt__length": 40}, ("40", "context = 16")),
        ({"adapt__kind": "lorra"}, ("did you mean", "lora")),
        ({"init_from": None, "adapt__kind": "lora"}, ("there is none", "Set init_from")),
        (
            {"init_from": "pip:no-such-package"},
            ("not installed", "if you know it and trust"),
        ),
    ],
    ids=["pattern", "long prompt", "misspelt", "nothing to adapt", "no package"],
)
def test_impossible_adaptation_is_refused(
    workspace: Workspace, settings: dict[str, object], expected: tuple[str, ...]
) -> None:
    table = {**ADAPTED, **settings}
    if table["init_from"] is None:
        del table["init_from"]
        table |= {"model__family": "encoder"}
        del table["model"], table["tokenizer"]
    workspace.recipe("adapted.toml", **table)
    result = workspace.invoke("train", "adapted.toml")
    assert result.exit_code == 2, result.stderr
    for phrase in expected:
        assert phrase in result.error
    assert not (workspace.folder / RUN).exists()
