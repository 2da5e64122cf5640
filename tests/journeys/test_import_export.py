"""`regard import` and `regard export`; transformers loads what is exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.transformers_models import install_package
from tests.journeys.workspace import Workspace, generated_text

MODERN = {
    "model__positions": "rotary",
    "model__norm": "rms",
    "model__activation": "swiglu",
    "model__biases": False,
    "model__dropout": 0.0,
    "train__max_steps": 3,
}
NEXT = {"name": "next", "model": None, "tokenizer": None, "train__max_steps": 1}
IDS = torch.tensor([[2, 9, 8, 7, 11, 10]])


def reference_logits(folder: Path) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.inference_mode():
        logits: torch.Tensor = model(IDS).logits
    return logits


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with a LLaMA-like decoder and a LoRA of it."""
    shared = Workspace(tmp_path_factory.mktemp("exchange"))
    shared.write("generated.txt", generated_text())
    shared.recipe("first.toml", name="first", **MODERN)
    shared.run("train", "first.toml")
    shared.recipe(
        "lora.toml",
        name="lora",
        init_from="runs/first",
        model=None,
        tokenizer=None,
        adapt__kind="lora",
        train__max_steps=8,
    )
    shared.run("train", "lora.toml")
    return shared


def test_export_then_import_is_the_same_model(workspace: Workspace) -> None:
    assert "architecture  llama" in workspace.run("export", "runs/first", "--out", "theirs")
    printed = workspace.run("import", "theirs", "--out", "ours")
    assert "unused        nothing in the file" in printed
    assert "unfilled      no parameter" in printed
    generated = json.loads(workspace.run("generate", "runs/first", "the cat", "--json"))
    assert json.loads(workspace.run("generate", "ours", "the cat", "--json")) == generated
    result = workspace.invoke("export", "runs/first", "--out", "theirs")
    assert result.exit_code == 2
    assert "theirs: is already there" in result.error


def test_adapter_is_exported_beside_its_base_or_merged(workspace: Workspace) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    workspace.run("export", "runs/lora", "--out", "apart")
    workspace.run("export", "runs/lora", "--out", "merged", "--merge")
    base = AutoModelForCausalLM.from_pretrained(workspace.folder / "apart")
    alone = base(IDS).logits
    adapted = PeftModel.from_pretrained(base, workspace.folder / "apart/adapter").eval()
    with torch.inference_mode():
        together = adapted(IDS).logits
    merged = reference_logits(workspace.folder / "merged")
    assert torch.allclose(together, merged, atol=1e-5)
    assert not torch.allclose(alone, merged, atol=1e-3), "the adapter changed the logits"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"config.json": "{"}, "config.json"),
        ({"config.json": '{"model_type": "mamba"}', "model.safetensors": ""}, "model_type"),
        ({"config.json": '{"model_type": "gpt2"}', "pytorch_model.bin": "x"}, "pickle"),
        ({}, "there is no such folder"),
    ],
    ids=["damaged", "unknown", "pickle", "nothing"],
)
def test_unsupported_import_is_refused(
    workspace: Workspace, files: dict[str, str], expected: str
) -> None:
    for name, content in files.items():
        workspace.write(f"bad-{expected}/{name}", content)
    result = workspace.invoke("import", f"bad-{expected}", "--out", "new")
    assert result.exit_code == 2
    assert expected in result.error
    assert not (workspace.folder / "new").exists()


def test_import_remarks_carry_over_to_runs_initialised_from_it(workspace: Workspace) -> None:
    workspace.run("export", "runs/first", "--out", "complete")
    file = workspace.folder / "complete/model.safetensors"
    missing = "model.layers.0.self_attn.q_proj.weight"
    save_file({name: t for name, t in load_file(file).items() if name != missing}, file)
    workspace.run("import", "complete", "--out", "incomplete")
    workspace.recipe("next.toml", **{**NEXT, "init_from": "incomplete"})
    result = workspace.invoke("train", "next.toml")
    remark = (
        "incomplete: the file has no tensors for stack.blocks.0.attention.query.weight: initialised"
    )
    assert result.exit_code == 0
    assert remark in result.stdout + result.stderr
    results = json.loads((workspace.folder / "runs/next/results.json").read_text())
    assert any(line.startswith(remark) for line in results["remarks"])
    assert remark in (workspace.folder / "runs/next/report.html").read_text()


def test_package_import_remarks_carry_over(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(install_package(workspace.folder / "site")))
    rows = [f"word{n} word{n + 3},{'yes' if n % 2 else 'no'}" for n in range(20)]
    workspace.write("rows.csv", "\n".join(["text,label", *rows]) + "\n")
    task = {"data__corpus": "rows.csv", "task__kind": "classification", "samples": None}
    task["train__batch_tokens"] = 16
    for name in ("fresh", "cached"):  # the second run imports nothing
        workspace.recipe("next.toml", **{**NEXT, **task, "init_from": "pip:tiny-model"})
        workspace.run("train", "next.toml", "--out", f"runs/{name}")
        results = json.loads((workspace.folder / f"runs/{name}/results.json").read_text())
        remark = "pip:tiny-model: the file has no head transform"
        assert sum(line.startswith(remark) for line in results["remarks"]) == 1


def test_adapter_and_run_folders_are_recognised(workspace: Workspace) -> None:
    workspace.run("export", "runs/lora", "--out", "exported")
    result = workspace.invoke("import", "exported/adapter", "--out", "new")
    assert result.exit_code == 2
    assert "is an adapter (adapter_config.json)" in result.error
    assert "merge_and_unload" in result.error
    for folder in ("runs/lora", "runs/lora/final"):
        result = workspace.invoke("import", folder, "--out", "new")
        assert result.exit_code == 2
        assert "is a regard model already" in result.error
    result = workspace.invoke("generate", "runs/lora", "the cat", "--base", "exported")
    assert result.exit_code == 2
    assert "exported was not imported yet" in result.error
    assert "regard import exported --out ANOTHER_FOLDER" in result.error
    workspace.run("import", "exported", "--out", "imported")
    assert "imported, not trained yet" in workspace.run("ledger", "imported")
    assert "not trained yet" not in workspace.run("ledger", "runs/lora")
    workspace.run("generate", "runs/lora", "the cat", "--base", "imported")


def test_untrained_model_is_exported_unchanged(workspace: Workspace) -> None:
    workspace.recipe("next.toml", **{**NEXT, "init_from": "runs/first", "adapt__kind": "none"})
    workspace.run("train", "next.toml", "--out", "runs/measured")
    workspace.run("export", "runs/measured", "--out", "measured")
    workspace.run("export", "runs/first", "--out", "as-it-was")
    assert not (workspace.folder / "measured/adapter").exists()
    assert torch.equal(
        reference_logits(workspace.folder / "measured"),
        reference_logits(workspace.folder / "as-it-was"),
    )


def test_model_without_a_transformers_architecture_is_refused(workspace: Workspace) -> None:
    workspace.recipe("other.toml", name="other", model__attention="additive", train__max_steps=1)
    workspace.run("train", "other.toml")
    result = workspace.invoke("export", "runs/other", "--out", "never")
    assert result.exit_code == 2
    assert "gpt2 does not have attention = additive" in result.error
    assert not (workspace.folder / "never").exists()
