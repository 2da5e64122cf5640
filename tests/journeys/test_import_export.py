"""Checkpoints in and out, as a person types it; transformers reads what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.theirs import installed
from tests.journeys.workspace import Workspace, generated_text

MODERN = {
    "model__positions": "rotary",
    "model__norm": "rms",
    "model__activation": "swiglu",
    "model__biases": False,
    "model__dropout": 0.0,
    "train__max_steps": 3,
}
ON = {"name": "on", "model": None, "tokenizer": None, "train__max_steps": 1}
IDS = torch.tensor([[2, 9, 8, 7, 11, 10]])


def outputs(folder: Path) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.inference_mode():
        scores: torch.Tensor = model(IDS).logits
    return scores


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with a decoder made as LLaMA is, and a LoRA on it."""
    made = Workspace(tmp_path_factory.mktemp("exchange"))
    made.write("generated.txt", generated_text())
    made.recipe("first.toml", name="first", **MODERN)
    made.run("train", "first.toml")
    made.recipe(
        "lora.toml",
        name="lora",
        start="runs/first",
        model=None,
        tokenizer=None,
        adapt__kind="lora",
        train__max_steps=8,
    )
    made.run("train", "lora.toml")
    return made


def test_out_and_in_again_is_the_same_model(workspace: Workspace) -> None:
    assert "architecture  llama" in workspace.run("export", "runs/first", "--out", "theirs")
    said = workspace.run("import", "theirs", "--out", "ours")
    assert "unused        nothing in the file" in said
    assert "unfilled      no parameter" in said
    mine = json.loads(workspace.run("generate", "runs/first", "the cat", "--json"))
    assert json.loads(workspace.run("generate", "ours", "the cat", "--json")) == mine
    result = workspace.invoke("export", "runs/first", "--out", "theirs")
    assert result.exit_code == 2
    assert "theirs: is already there" in result.error


def test_an_adapter_goes_out_beside_its_base_or_merged_into_it(workspace: Workspace) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    workspace.run("export", "runs/lora", "--out", "apart")
    workspace.run("export", "runs/lora", "--out", "merged", "--merge")
    base = AutoModelForCausalLM.from_pretrained(workspace.folder / "apart")
    alone = base(IDS).logits
    adapted = PeftModel.from_pretrained(base, workspace.folder / "apart/adapter").eval()
    with torch.inference_mode():
        together = adapted(IDS).logits
    merged = outputs(workspace.folder / "merged")
    assert torch.allclose(together, merged, atol=1e-5)
    assert not torch.allclose(alone, merged, atol=1e-3), "the adapter has learnt something"


@pytest.mark.parametrize(
    ("write", "says"),
    [
        ({"config.json": "{"}, "config.json"),
        ({"config.json": '{"model_type": "mamba"}', "model.safetensors": ""}, "model_type"),
        ({"config.json": '{"model_type": "gpt2"}', "pytorch_model.bin": "x"}, "pickle"),
        ({}, "there is no such folder"),
    ],
    ids=["damaged", "unknown", "pickle", "nothing"],
)
def test_what_cannot_be_imported_is_said(
    workspace: Workspace, write: dict[str, str], says: str
) -> None:
    for name, content in write.items():
        workspace.write(f"bad-{says}/{name}", content)
    result = workspace.invoke("import", f"bad-{says}", "--out", "new")
    assert result.exit_code == 2
    assert says in result.error
    assert not (workspace.folder / "new").exists()


def test_what_an_import_said_is_said_of_runs_that_start_from_it(workspace: Workspace) -> None:
    workspace.run("export", "runs/first", "--out", "whole")
    file = workspace.folder / "whole/model.safetensors"
    gone = "model.layers.0.self_attn.q_proj.weight"
    save_file({name: t for name, t in load_file(file).items() if name != gone}, file)
    workspace.run("import", "whole", "--out", "holed")
    workspace.recipe("on.toml", **{**ON, "start": "holed"})
    result = workspace.invoke("train", "on.toml")
    said = "holed: nothing in the file fills stack.blocks.0.attention.query.weight: random"
    assert result.exit_code == 0
    assert said in result.stdout + result.stderr
    figures = json.loads((workspace.folder / "runs/on/results.json").read_text())
    assert any(remark.startswith(said) for remark in figures["remarks"])
    assert said in (workspace.folder / "runs/on/report.html").read_text()


def test_what_the_import_of_a_package_said_is_said_too(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed(workspace.folder / "site")))
    rows = [f"word{n} word{n + 3},{'yes' if n % 2 else 'no'}" for n in range(20)]
    workspace.write("rows.csv", "\n".join(["text,label", *rows]) + "\n")
    task = {"data__corpus": "rows.csv", "task__kind": "classification", "samples": None}
    task["train__batch_tokens"] = 16
    for name in ("fresh", "cached"):  # the second import is none
        workspace.recipe("on.toml", **{**ON, **task, "start": "pip:tiny-model"})
        workspace.run("train", "on.toml", "--out", f"runs/{name}")
        figures = json.loads((workspace.folder / f"runs/{name}/results.json").read_text())
        said = "pip:tiny-model: the file has no output network"
        assert sum(remark.startswith(said) for remark in figures["remarks"]) == 1


def test_folders_that_are_something_else_are_known(workspace: Workspace) -> None:
    workspace.run("export", "runs/lora", "--out", "known")
    result = workspace.invoke("import", "known/adapter", "--out", "new")
    assert result.exit_code == 2
    assert "holds an adapter (adapter_config.json) for the model known" in result.error
    assert "merge_and_unload" in result.error
    for own in ("runs/lora", "runs/lora/final"):
        result = workspace.invoke("import", own, "--out", "new")
        assert result.exit_code == 2
        assert "is regard's own already" in result.error
    result = workspace.invoke("generate", "runs/lora", "the cat", "--base", "known")
    assert result.exit_code == 2
    assert "known is no model of regard's yet" in result.error
    assert "regard import known --out ANOTHER_FOLDER" in result.error
    workspace.run("import", "known", "--out", "imported")
    assert "imported, and nothing of it trained yet" in workspace.run("ledger", "imported")
    assert "nothing of it trained yet" not in workspace.run("ledger", "runs/lora")
    workspace.run("generate", "runs/lora", "the cat", "--base", "imported")


def test_a_model_that_was_only_measured_goes_out_as_it_is(workspace: Workspace) -> None:
    workspace.recipe("on.toml", **{**ON, "start": "runs/first", "adapt__kind": "none"})
    workspace.run("train", "on.toml", "--out", "runs/measured")
    workspace.run("export", "runs/measured", "--out", "measured")
    workspace.run("export", "runs/first", "--out", "as-it-was")
    assert not (workspace.folder / "measured/adapter").exists()
    assert torch.equal(
        outputs(workspace.folder / "measured"), outputs(workspace.folder / "as-it-was")
    )


def test_a_model_that_transformers_has_no_word_for_is_refused(workspace: Workspace) -> None:
    workspace.recipe("other.toml", name="other", model__attention="additive", train__max_steps=1)
    workspace.run("train", "other.toml")
    result = workspace.invoke("export", "runs/other", "--out", "never")
    assert result.exit_code == 2
    assert "gpt2 does not have attention = additive" in result.error
    assert not (workspace.folder / "never").exists()
