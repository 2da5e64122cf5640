"""Checkpoints in and out, as a person types it; transformers reads what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.interop.theirs import installed
from tests.journeys.desk import Desk, generated_text

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
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a decoder made as LLaMA is, and a LoRA on it."""
    made = Desk(tmp_path_factory.mktemp("exchange"))
    made.write("generated.txt", generated_text())
    made.recipe("first.toml", name="first", **MODERN)
    made.done("train", "first.toml")
    made.recipe(
        "lora.toml",
        name="lora",
        start="runs/first",
        model=None,
        tokenizer=None,
        adapt__kind="lora",
        train__max_steps=8,
    )
    made.done("train", "lora.toml")
    return made


def test_out_and_in_again_is_the_same_model(desk: Desk) -> None:
    assert "architecture  llama" in desk.done("export", "runs/first", "--out", "theirs")
    said = desk.done("import", "theirs", "--out", "ours")
    assert "unused        nothing in the file" in said
    assert "unfilled      no parameter" in said
    mine = json.loads(desk.done("generate", "runs/first", "the cat", "--json"))
    assert json.loads(desk.done("generate", "ours", "the cat", "--json")) == mine
    outcome = desk.regard("export", "runs/first", "--out", "theirs")
    assert outcome.code == 2
    assert "theirs: is already there" in outcome.complaint


def test_an_adapter_goes_out_beside_its_base_or_merged_into_it(desk: Desk) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    desk.done("export", "runs/lora", "--out", "apart")
    desk.done("export", "runs/lora", "--out", "merged", "--merge")
    base = AutoModelForCausalLM.from_pretrained(desk.folder / "apart")
    alone = base(IDS).logits
    adapted = PeftModel.from_pretrained(base, desk.folder / "apart/adapter").eval()
    with torch.inference_mode():
        together = adapted(IDS).logits
    merged = outputs(desk.folder / "merged")
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
def test_what_cannot_be_imported_is_said(desk: Desk, write: dict[str, str], says: str) -> None:
    for name, content in write.items():
        desk.write(f"bad-{says}/{name}", content)
    outcome = desk.regard("import", f"bad-{says}", "--out", "new")
    assert outcome.code == 2
    assert says in outcome.complaint
    assert not (desk.folder / "new").exists()


def test_what_an_import_said_is_said_of_runs_that_start_from_it(desk: Desk) -> None:
    desk.done("export", "runs/first", "--out", "whole")
    file = desk.folder / "whole/model.safetensors"
    gone = "model.layers.0.self_attn.q_proj.weight"
    save_file({name: t for name, t in load_file(file).items() if name != gone}, file)
    desk.done("import", "whole", "--out", "holed")
    desk.recipe("on.toml", **{**ON, "start": "holed"})
    outcome = desk.regard("train", "on.toml")
    said = "holed: nothing in the file fills stack.blocks.0.attention.query.weight: random"
    assert outcome.code == 0
    assert said in outcome.out + outcome.err
    figures = json.loads((desk.folder / "runs/on/figures.json").read_text())
    assert any(remark.startswith(said) for remark in figures["remarks"])
    assert said in (desk.folder / "runs/on/report.html").read_text()


def test_what_the_import_of_a_package_said_is_said_too(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed(desk.folder / "site")))
    rows = [f"word{n} word{n + 3},{'yes' if n % 2 else 'no'}" for n in range(20)]
    desk.write("rows.csv", "\n".join(["text,label", *rows]) + "\n")
    task = {"data__corpus": "rows.csv", "task__kind": "classification", "samples": None}
    task["train__batch_tokens"] = 16
    for name in ("fresh", "cached"):  # the second import is none
        desk.recipe("on.toml", **{**ON, **task, "start": "pip:tiny-model"})
        desk.done("train", "on.toml", "--out", f"runs/{name}")
        figures = json.loads((desk.folder / f"runs/{name}/figures.json").read_text())
        said = "pip:tiny-model: the file has no output network"
        assert sum(remark.startswith(said) for remark in figures["remarks"]) == 1


def test_folders_that_are_something_else_are_known(desk: Desk) -> None:
    desk.done("export", "runs/lora", "--out", "known")
    outcome = desk.regard("import", "known/adapter", "--out", "new")
    assert outcome.code == 2
    assert "holds an adapter (adapter_config.json) for the model known" in outcome.complaint
    assert "merge_and_unload" in outcome.complaint
    for own in ("runs/lora", "runs/lora/final"):
        outcome = desk.regard("import", own, "--out", "new")
        assert outcome.code == 2
        assert "is regard's own already" in outcome.complaint
    outcome = desk.regard("generate", "runs/lora", "the cat", "--base", "known")
    assert outcome.code == 2
    assert "known is no model of regard's yet" in outcome.complaint
    assert "regard import known --out ANOTHER_FOLDER" in outcome.complaint
    desk.done("import", "known", "--out", "imported")
    assert "imported, and nothing of it trained yet" in desk.done("ledger", "imported")
    assert "nothing of it trained yet" not in desk.done("ledger", "runs/lora")
    desk.done("generate", "runs/lora", "the cat", "--base", "imported")


def test_a_model_that_was_only_measured_goes_out_as_it_is(desk: Desk) -> None:
    desk.recipe("on.toml", **{**ON, "start": "runs/first", "adapt__kind": "none"})
    desk.done("train", "on.toml", "--out", "runs/measured")
    desk.done("export", "runs/measured", "--out", "measured")
    desk.done("export", "runs/first", "--out", "as-it-was")
    assert not (desk.folder / "measured/adapter").exists()
    assert torch.equal(outputs(desk.folder / "measured"), outputs(desk.folder / "as-it-was"))


def test_a_model_that_transformers_has_no_word_for_is_refused(desk: Desk) -> None:
    desk.recipe("other.toml", name="other", model__attention="additive", train__max_steps=1)
    desk.done("train", "other.toml")
    outcome = desk.regard("export", "runs/other", "--out", "never")
    assert outcome.code == 2
    assert "gpt2 does not have attention = additive" in outcome.complaint
    assert not (desk.folder / "never").exists()
