"""Adapters in peft's format: peft loads them over the exported base with equal outputs."""

from __future__ import annotations

import json
from pathlib import Path

import peft
import pytest
import torch
import transformers
from safetensors.torch import save_file
from tests.interop.test_export_model import BERT, LLAMA, build_family, build_model
from tests.interop.transformers_models import padded_rows, tokenizer

from regard.adapters import ADAPTERS
from regard.adapters.ledger import trained_tensors
from regard.core.errors import UserError
from regard.core.settings import read_settings, settings_class, to_table
from regard.interop.export_model import export_model, find_export_architecture
from regard.interop.peft import from_peft, to_peft
from regard.models.inputs import ModelInputs
from regard.training.checkpoint import load_tensors

TOLERANCE = 1e-5
BODIES = {
    "bert": ("encoder", BERT),
    "gpt2": ("decoder", {"activation": "gelu-tanh"}),
    "llama": ("decoder", {**LLAMA, "key_value_heads": 2}),
}
ALL = ["query", "key", "value", "out", "mlp.*"]
LORAS = {
    "query and value": {"targets": ["query", "value"]},
    "every layer": {"targets": ALL},
    "key of one block, down_proj": {"targets": ["blocks.1.attention.key", "down_proj"]},
}


def build_adapted(body: str, kind: str, **table):
    """A body with an adapter whose tensors are far from their initial values."""
    family_name, settings = BODIES[body]
    family = build_family(family_name, **settings)
    model = build_model(family)
    adapter = read_settings(settings_class(ADAPTERS, kind), table)
    adapter.apply(model, seed=0)
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for tensor in trained_tensors(model).values():
            tensor.add_(0.2 * torch.randn(tensor.shape, generator=generator))
    return model.eval(), family, {"kind": kind, **to_table(adapter)}


def load_in_peft(model, family, adapter, folder) -> peft.PeftModel:
    """Export the base and the adapter separately, and load both with peft."""
    architecture, _ = find_export_architecture(family, tokenizer())
    plain = build_model(family)
    export_model(plain, family, tokenizer(), folder / "base")
    config, tensors = to_peft(
        trained_tensors(model),
        adapter=adapter,
        family=family,
        architecture=architecture,
        base=str(folder / "base"),
    )
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "adapter" / "adapter_model.safetensors")
    kind = (
        transformers.AutoModel
        if architecture.family == "encoder"
        else transformers.AutoModelForCausalLM
    )
    base = kind.from_pretrained(folder / "base")
    return peft.PeftModel.from_pretrained(base, folder / "adapter").eval()


def outputs(model, theirs, *, virtual: int = 0):
    """Our outputs and theirs at the valid positions of padded rows."""
    ids, valid = padded_rows()
    found = theirs(input_ids=ids, attention_mask=valid.long())
    if hasattr(found, "logits"):
        return model.logits(ModelInputs(ids, valid=valid))[valid], found.logits[:, virtual:][valid]
    return model.hidden_states(ModelInputs(ids, valid=valid))[valid], found.last_hidden_state[
        :, virtual:
    ][valid]


@pytest.mark.parametrize("targets", LORAS)
@pytest.mark.parametrize("body", BODIES)
@torch.no_grad()
def test_lora(body, targets, tmp_path):
    model, family, adapter = build_adapted(body, "lora", rank=3, alpha=7.0, **LORAS[targets])
    theirs = load_in_peft(model, family, adapter, tmp_path)
    ours, expected = outputs(model, theirs)
    plain = outputs(build_model(family), theirs)[0]
    assert (ours - expected).abs().max() < TOLERANCE
    assert (ours - plain).abs().max() > 0.01  # the adapter has an effect
    merged = outputs(model, theirs.merge_and_unload())[1]
    assert (ours - merged).abs().max() < TOLERANCE


@pytest.mark.parametrize("body", BODIES)
@torch.no_grad()
def test_prompt(body, tmp_path):
    model, family, adapter = build_adapted(body, "prompt", length=4)
    theirs = load_in_peft(model, family, adapter, tmp_path)
    ours, expected = outputs(model, theirs, virtual=4)
    assert (ours - expected).abs().max() < TOLERANCE
    assert (ours - outputs(build_model(family), theirs, virtual=4)[0]).abs().max() > 0.01


@pytest.mark.parametrize("body", ["gpt2", "llama"])
@torch.no_grad()
def test_prefix_of_decoders(body, tmp_path):
    model, family, adapter = build_adapted(body, "prefix", length=4)
    theirs = load_in_peft(model, family, adapter, tmp_path)
    ours, expected = outputs(model, theirs)
    assert (ours - expected).abs().max() < TOLERANCE
    assert (ours - outputs(build_model(family), theirs)[0]).abs().max() > 0.01


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        *(("lora", {"rank": 2, **targets}) for targets in LORAS.values()),
        ("prompt", {"length": 4}),
        ("prefix", {"length": 4}),
    ],
)
@pytest.mark.parametrize("body", BODIES)
def test_round_trip_is_bit_exact(body, kind, table):
    model, family, adapter = build_adapted(body, kind, **table)
    architecture, _ = find_export_architecture(family, tokenizer())
    first = trained_tensors(model)
    config, tensors = to_peft(
        first, adapter=adapter, family=family, architecture=architecture, base="base"
    )
    modules = {name.rpartition(".")[0] for name in first}
    settings, second = from_peft(
        config, tensors, family=family, architecture=architecture, modules=modules
    )
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert settings["kind"] == kind
    if kind == "lora":
        assert (settings["rank"], settings["alpha"]) == (2, pytest.approx(adapter["alpha"]))
    else:
        assert settings["length"] == 4


@pytest.mark.parametrize(
    ("body", "config"),
    [
        ("bert", {"target_modules": ["query", "output.dense"], "r": 2, "lora_alpha": 5}),
        ("gpt2", {"target_modules": ["c_attn"], "r": 3, "lora_alpha": 4, "fan_in_fan_out": True}),
        ("llama", {"target_modules": "all-linear", "r": 2, "use_rslora": True}),
    ],
)
@torch.no_grad()
def test_adapter_trained_with_peft(body, config, tmp_path):
    family_name, settings = BODIES[body]
    family = build_family(family_name, **settings)
    model = build_model(family)
    export_model(model, family, tokenizer(), tmp_path / "base")
    architecture, _ = find_export_architecture(family, tokenizer())
    kind = transformers.AutoModel if family_name == "encoder" else transformers.AutoModelForCausalLM
    task = {"task_type": architecture.peft_task, "init_lora_weights": False}
    torch.manual_seed(0)
    theirs = peft.get_peft_model(
        kind.from_pretrained(tmp_path / "base"), peft.LoraConfig(**config, **task)
    ).eval()
    theirs.save_pretrained(tmp_path / "adapter")
    from safetensors.torch import load_file

    peft_config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    tensors = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    table, ours = from_peft(peft_config, tensors, family=family, architecture=architecture)
    adapter = read_settings(settings_class(ADAPTERS, table.pop("kind")), table)
    adapter.apply(model, seed=0)
    load_tensors(model, ours, where=Path("kept"))
    found, expected = outputs(model, theirs)
    assert (found - expected).abs().max() < TOLERANCE * expected.abs().max()


def test_head_tensors_are_kept(tmp_path):
    model, family, adapter = build_adapted("gpt2", "lora", rank=2)
    architecture, _ = find_export_architecture(family, tokenizer())
    inside = {f"body.{name}": tensor for name, tensor in trained_tensors(model).items()}
    head = {"head.labels.weight": torch.ones(2, 16)}
    config, tensors = to_peft(
        {**inside, **head}, adapter=adapter, family=family, architecture=architecture, base="base"
    )
    assert torch.equal(tensors["regard.head.labels.weight"], head["head.labels.weight"])
    _, back = from_peft(config, tensors, family=family, architecture=architecture)
    assert "head.labels.weight" in back


def read_adapter(config, **tensors):
    family = build_family(*[BODIES["gpt2"][0]], **BODIES["gpt2"][1])
    architecture, _ = find_export_architecture(family, tokenizer())
    return from_peft(config, tensors, family=family, architecture=architecture)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"peft_type": "LORA", "use_dora": True}, "use_dora is True"),
        ({"peft_type": "LORA", "bias": "all"}, "bias is 'all'"),
        ({"peft_type": "LORA", "init_lora_weights": "pissa_niter_4"}, "changed the base weights"),
        ({"peft_type": "LORA", "init_lora_weights": "loftq"}, "init_lora_weights is 'loftq'"),
        ({"peft_type": "LORA", "init_lora_weights": "gaussian"}, "it has no LoRA tensors"),
        ({"peft_type": "LORA", "modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"peft_type": "LORA", "r": 2, "lora_alpha": 2}, "it has no LoRA tensors"),
        ({"peft_type": "PREFIX_TUNING", "prefix_projection": True}, "prefix_projection"),
        ({"peft_type": "PROMPT_TUNING"}, "no tensor prompt_embeddings"),
    ],
)
def test_unsupported_adapters_are_refused(config, message):
    with pytest.raises(UserError) as error:
        read_adapter(config)
    assert message in str(error.value)


def test_tensors_of_another_model_are_refused():
    unknown = {"base_model.model.encoder.layer.0.x.lora_A.weight": torch.ones(2, 3)}
    with pytest.raises(UserError, match="belongs to no linear layer"):
        read_adapter({"peft_type": "LORA", "r": 2, "lora_alpha": 2}, **unknown)
    with pytest.raises(UserError, match=r"7 columns, .*multiple of 2 · 2 layers"):
        read_adapter({"peft_type": "PREFIX_TUNING"}, prompt_embeddings=torch.ones(3, 7))


def test_kinds_unknown_to_peft_are_refused():
    family = build_family("decoder")
    architecture, _ = find_export_architecture(family, tokenizer())
    target = {"family": family, "architecture": architecture, "base": "base"}
    with pytest.raises(UserError, match="no adapter of kind bias"):
        to_peft({}, adapter={"kind": "bias"}, **target)
    lora = {"kind": "lora", "rank": 1, "alpha": 1.0}
    unknown = {"head.tokens.lora_A": torch.ones(1, 2), "head.tokens.lora_B": torch.ones(2, 1)}
    with pytest.raises(UserError, match=r"head\.tokens has no counterpart in gpt2"):
        to_peft(unknown, adapter=lora, **target)
