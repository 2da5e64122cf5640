"""Adapters written in peft's form: peft loads them over the exported base and computes the same."""

from __future__ import annotations

import json
from pathlib import Path

import peft
import pytest
import torch
import transformers
from safetensors.torch import save_file
from tests.interop.test_export_model import BERT, LLAMA, family_of, model_of
from tests.interop.theirs import padded_rows, tokenizer

from regard.adapters import ADAPTERS
from regard.adapters.ledger import trained_tensors
from regard.core.errors import UserError
from regard.core.settings import read_settings, settings_class, to_table
from regard.interop.export_model import export_model, fitting_architecture
from regard.interop.peft import from_peft, to_peft
from regard.training.checkpoint import load_tensors

WITHIN = 1e-5
BODIES = {
    "bert": ("encoder", BERT),
    "gpt2": ("decoder", {"activation": "gelu-tanh"}),
    "llama": ("decoder", {**LLAMA, "key_value_heads": 2}),
}
ALL = ["query", "key", "value", "out", "mlp.*"]
LORAS = {
    "query and value": {"targets": ["query", "value"]},
    "every layer": {"targets": ALL},
    "key of one block, narrow": {"targets": ["blocks.1.attention.key", "down_proj"]},
}


def adapted(body: str, kind: str, **table):
    """A body with an adapter whose tensors are far from where they start."""
    sort, settings = BODIES[body]
    family = family_of(sort, **settings)
    model = model_of(family)
    adapter = read_settings(settings_class(ADAPTERS, kind), table)
    adapter.apply(model, seed=0)
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for tensor in trained_tensors(model).values():
            tensor.add_(0.2 * torch.randn(tensor.shape, generator=generator))
    return model.eval(), family, {"kind": kind, **to_table(adapter)}


def in_peft(model, family, adapter, folder) -> peft.PeftModel:
    """Export a base without its adapter, write the adapter beside it, and let peft load both."""
    there, _ = fitting_architecture(family, tokenizer())
    plain = model_of(family)
    export_model(plain, family, tokenizer(), folder / "base")
    config, tensors = to_peft(
        trained_tensors(model),
        adapter=adapter,
        family=family,
        architecture=there,
        base=str(folder / "base"),
    )
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "adapter" / "adapter_model.safetensors")
    kind = (
        transformers.AutoModel if there.family == "encoder" else transformers.AutoModelForCausalLM
    )
    base = kind.from_pretrained(folder / "base")
    return peft.PeftModel.from_pretrained(base, folder / "adapter").eval()


def outputs(model, theirs, *, virtual: int = 0):
    """Ours and theirs at the real places of padded rows."""
    ids, valid = padded_rows()
    found = theirs(input_ids=ids, attention_mask=valid.long())
    if hasattr(found, "logits"):
        return model.logits(ids, valid=valid)[valid], found.logits[:, virtual:][valid]
    return model.hidden_states(ids, valid=valid)[valid], found.last_hidden_state[:, virtual:][valid]


@pytest.mark.parametrize("targets", LORAS)
@pytest.mark.parametrize("body", BODIES)
@torch.no_grad()
def test_lora(body, targets, tmp_path):
    model, family, adapter = adapted(body, "lora", rank=3, alpha=7.0, **LORAS[targets])
    theirs = in_peft(model, family, adapter, tmp_path)
    ours, expected = outputs(model, theirs)
    plain = outputs(model_of(family), theirs)[0]
    assert (ours - expected).abs().max() < WITHIN
    assert (ours - plain).abs().max() > 0.01  # it does change something
    merged = outputs(model, theirs.merge_and_unload())[1]
    assert (ours - merged).abs().max() < WITHIN


@pytest.mark.parametrize("body", BODIES)
@torch.no_grad()
def test_prompt(body, tmp_path):
    model, family, adapter = adapted(body, "prompt", length=4)
    theirs = in_peft(model, family, adapter, tmp_path)
    ours, expected = outputs(model, theirs, virtual=4)
    assert (ours - expected).abs().max() < WITHIN
    assert (ours - outputs(model_of(family), theirs, virtual=4)[0]).abs().max() > 0.01


@pytest.mark.parametrize("body", ["gpt2", "llama"])
@torch.no_grad()
def test_prefix_of_decoders(body, tmp_path):
    model, family, adapter = adapted(body, "prefix", length=4)
    theirs = in_peft(model, family, adapter, tmp_path)
    ours, expected = outputs(model, theirs)
    assert (ours - expected).abs().max() < WITHIN
    assert (ours - outputs(model_of(family), theirs)[0]).abs().max() > 0.01


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        *(("lora", {"rank": 2, **targets}) for targets in LORAS.values()),
        ("prompt", {"length": 4}),
        ("prefix", {"length": 4}),
    ],
)
@pytest.mark.parametrize("body", BODIES)
def test_there_and_back_is_the_same_bit_for_bit(body, kind, table):
    model, family, adapter = adapted(body, kind, **table)
    there, _ = fitting_architecture(family, tokenizer())
    first = trained_tensors(model)
    config, tensors = to_peft(
        first, adapter=adapter, family=family, architecture=there, base="base"
    )
    modules = {name.rpartition(".")[0] for name in first}
    settings, second = from_peft(
        config, tensors, family=family, architecture=there, modules=modules
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
def test_an_adapter_that_peft_made(body, config, tmp_path):
    sort, settings = BODIES[body]
    family = family_of(sort, **settings)
    model = model_of(family)
    export_model(model, family, tokenizer(), tmp_path / "base")
    there, _ = fitting_architecture(family, tokenizer())
    kind = transformers.AutoModel if sort == "encoder" else transformers.AutoModelForCausalLM
    task = {"task_type": there.task, "init_lora_weights": False}
    torch.manual_seed(0)
    theirs = peft.get_peft_model(
        kind.from_pretrained(tmp_path / "base"), peft.LoraConfig(**config, **task)
    ).eval()
    theirs.save_pretrained(tmp_path / "adapter")
    from safetensors.torch import load_file

    read = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    tensors = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    table, ours = from_peft(read, tensors, family=family, architecture=there)
    adapter = read_settings(settings_class(ADAPTERS, table.pop("kind")), table)
    adapter.apply(model, seed=0)
    load_tensors(model, ours, where=Path("kept"))
    found, expected = outputs(model, theirs)
    assert (found - expected).abs().max() < WITHIN * expected.abs().max()


def test_tensors_of_a_head_come_along(tmp_path):
    model, family, adapter = adapted("gpt2", "lora", rank=2)
    there, _ = fitting_architecture(family, tokenizer())
    inside = {f"body.{name}": tensor for name, tensor in trained_tensors(model).items()}
    head = {"head.labels.weight": torch.ones(2, 16)}
    config, tensors = to_peft(
        {**inside, **head}, adapter=adapter, family=family, architecture=there, base="base"
    )
    assert torch.equal(tensors["regard.head.labels.weight"], head["head.labels.weight"])
    _, back = from_peft(config, tensors, family=family, architecture=there)
    assert "head.labels.weight" in back


def _read(config, **tensors):
    family = family_of(*[BODIES["gpt2"][0]], **BODIES["gpt2"][1])
    there, _ = fitting_architecture(family, tokenizer())
    return from_peft(config, tensors, family=family, architecture=there)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"peft_type": "LORA", "use_dora": True}, "use_dora is True"),
        ({"peft_type": "LORA", "bias": "all"}, "bias is 'all'"),
        ({"peft_type": "LORA", "init_lora_weights": "pissa_niter_4"}, "the base was changed"),
        ({"peft_type": "LORA", "init_lora_weights": "loftq"}, "init_lora_weights is 'loftq'"),
        ({"peft_type": "LORA", "init_lora_weights": "gaussian"}, "it has no LoRA tensors"),
        ({"peft_type": "LORA", "modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"peft_type": "LORA", "r": 2, "lora_alpha": 2}, "it has no LoRA tensors"),
        ({"peft_type": "PREFIX_TUNING", "prefix_projection": True}, "prefix_projection"),
        ({"peft_type": "PROMPT_TUNING"}, "no tensor prompt_embeddings"),
    ],
)
def test_other_adapters_are_refused(config, said):
    with pytest.raises(UserError) as told:
        _read(config)
    assert said in str(told.value)


def test_tensors_of_another_model_are_refused():
    strange = {"base_model.model.encoder.layer.0.x.lora_A.weight": torch.ones(2, 3)}
    with pytest.raises(UserError, match="belongs to no linear layer"):
        _read({"peft_type": "LORA", "r": 2, "lora_alpha": 2}, **strange)
    with pytest.raises(UserError, match="columns, which 2 layers do not share"):
        _read({"peft_type": "PREFIX_TUNING"}, prompt_embeddings=torch.ones(3, 7))


def test_kinds_that_peft_does_not_have():
    family = family_of("decoder")
    there, _ = fitting_architecture(family, tokenizer())
    named = {"family": family, "architecture": there, "base": "base"}
    with pytest.raises(UserError, match="no adapter of the kind bias"):
        to_peft({}, adapter={"kind": "bias"}, **named)
    lora = {"kind": "lora", "rank": 1, "alpha": 1.0}
    strange = {"head.tokens.lora_A": torch.ones(1, 2), "head.tokens.lora_B": torch.ones(2, 1)}
    with pytest.raises(UserError, match=r"head\.tokens has no counterpart in gpt2"):
        to_peft(strange, adapter=lora, **named)
