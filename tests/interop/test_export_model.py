"""Exported folders load in transformers with equal outputs; a round trip keeps every bit."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from tests.interop.transformers_models import (
    SMALL,
    VOCABULARY,
    load_folder,
    padded_rows,
    randomise,
    save_checkpoint,
    tokenizer,
)

from regard.core.errors import UserError
from regard.core.settings import read_settings, settings_class, to_table
from regard.interop.export_model import export_model
from regard.interop.import_model import import_model
from regard.models.families import FAMILIES
from regard.models.inputs import ModelInputs

TOLERANCE = 1e-5
SIZE = {"context": 20, "layers": 2, "heads": 4, "width": 16, "mlp_width": 24}
BERT = {"norm_placement": "post", "embedding_norm": True, "segments": 2}
LLAMA = {"positions": "rotary", "norm": "rms", "activation": "swiglu", "biases": False}
MODELS = {
    "bert": ("encoder", {**BERT, "head_transform": True, "pooler": True}, "bert"),
    "bert, bare": ("encoder", {**BERT, "activation": "relu"}, "bert"),
    "bert, untied": ("encoder", {**BERT, "head_transform": True, "tied": False}, "bert"),
    "roberta": ("encoder", {**BERT, "head_transform": True, "segments": 1}, "roberta"),
    "roberta, for its gelu": (
        "encoder",
        {**BERT, "head_transform": True, "activation": "gelu-tanh"},
        None,
    ),
    "gpt2": ("decoder", {"activation": "gelu-tanh"}, "gpt2"),
    "gpt2, untied": ("decoder", {"tied": False, "norm_eps": 1e-3}, None),
    "llama": ("decoder", {**LLAMA, "key_value_heads": 2, "tied": False}, "llama"),
    "llama, tied": (
        "decoder",
        {**LLAMA, "positions": {"kind": "rotary", "base": 700.0}},
        None,
    ),
    "llama, biases": ("decoder", {**LLAMA, "biases": True, "attention_dropout": 0.2}, None),
}


def build_family(name: str, **table):
    return read_settings(settings_class(FAMILIES, name), {**SIZE, **table})


def build_model(family, *, rows: int = VOCABULARY):
    model = family.build(vocabulary=rows, seed=0)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_transformers_loads_it_with_equal_outputs(name, tmp_path):
    family_name, table, architecture = MODELS[name]
    family = build_family(family_name, **table)
    ours = build_model(family)
    export_model(ours, family, tokenizer(), tmp_path / "out", architecture=architecture)
    ids, valid = padded_rows()
    has_logits = family_name == "decoder" or table.get("head_transform")
    if has_logits:
        kind = (
            transformers.AutoModelForCausalLM
            if family_name == "decoder"
            else transformers.AutoModelForMaskedLM
        )
        theirs, info = kind.from_pretrained(tmp_path / "out", output_loading_info=True)
        assert not info["missing_keys"]
        logits = theirs.eval()(input_ids=ids, attention_mask=valid.long()).logits
        assert (ours.logits(ModelInputs(ids, valid=valid)) - logits)[valid].abs().max() < TOLERANCE
    body = transformers.AutoModel.from_pretrained(tmp_path / "out").eval()
    outputs = body(input_ids=ids, attention_mask=valid.long())
    found = ours.hidden_states(ModelInputs(ids, valid=valid))
    assert (found - outputs.last_hidden_state)[valid].abs().max() < TOLERANCE
    if ours.pooler is not None if family_name == "encoder" else False:
        assert (ours.pooler(found[:, 0]) - outputs.pooler_output).abs().max() < TOLERANCE


@pytest.mark.parametrize("name", MODELS)
def test_export_then_import_is_bit_exact(name, tmp_path):
    family_name, table, architecture = MODELS[name]
    family = build_family(family_name, **table)
    ours = build_model(family, rows=VOCABULARY + 2)
    export_model(ours, family, tokenizer(), tmp_path / "out", architecture=architecture)
    report = import_model(str(tmp_path / "out"), tmp_path / "in")
    again, again_family = load_folder(tmp_path / "in")
    assert to_table(again_family) == to_table(family)
    assert report.unused == report.unfilled == []
    first, second = ours.state_dict(), again.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert report.tokenizer.fingerprint == tokenizer().fingerprint


def test_import_then_export_keeps_the_tensors(tmp_path):
    from safetensors.torch import load_file

    config = transformers.RobertaConfig(**SMALL, type_vocab_size=1)
    theirs = randomise(transformers.RobertaForMaskedLM(config))
    folder = save_checkpoint(theirs, tmp_path / "theirs")
    import_model(str(folder), tmp_path / "ours")
    model, family = load_folder(tmp_path / "ours")
    export_model(model, family, tokenizer(), tmp_path / "back", architecture="roberta")
    first = load_file(folder / "model.safetensors")
    second = load_file(tmp_path / "back" / "model.safetensors")
    assert first.keys() <= second.keys()
    for name, tensor in first.items():
        skipped_rows = 2 if "position_embeddings" in name else 0  # rows without a position
        assert torch.equal(tensor[skipped_rows:], second[name][skipped_rows:])


def test_tokenizer_is_exported(tmp_path):
    family = build_family("decoder")
    export_model(build_model(family), family, tokenizer(), tmp_path / "out")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    text = "word3 word7 word1 else"
    assert theirs(text, add_special_tokens=False)["input_ids"] == tokenizer().encode(text)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"], config["pad_token_id"]) == (0, 2, 1)


@pytest.mark.parametrize(
    ("family_name", "table", "message"),
    [
        ("decoder", {"attention": "additive"}, "attention = additive"),
        ("decoder", {"positions": "alibi"}, "positions = alibi"),
        ("decoder", {"norm_placement": "post"}, "norm_placement = post"),
        ("decoder", {"biases": False}, "biases = false"),
        ("decoder", {"projections": "shared-qk"}, "projections = shared-qk"),
        ("decoder", {"key_value_heads": 2}, "key_value_heads = 2"),
        ("encoder", {**BERT, "embedding_norm": False}, "embedding_norm = false"),
        ("encoder", {**BERT, "segments": 0}, "segments = 0"),
        ("encoder", {**BERT, "tied": False}, "tied = false without head_transform"),
        ("encoder", {**BERT, "patch_dim": 4}, "patch_dim = 4"),
        ("encoder-decoder", {}, "family encoder-decoder"),
    ],
)
def test_unsupported_settings_are_named(family_name, table, message, tmp_path):
    family = build_family(family_name, **table)
    with pytest.raises(UserError) as error:
        export_model(build_model(family), family, tokenizer(), tmp_path / "out")
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


def test_architecture_of_another_family_is_refused(tmp_path):
    family = build_family("decoder")
    with pytest.raises(UserError, match=r"architecture bert .* family decoder"):
        export_model(
            build_model(family), family, tokenizer(), tmp_path / "out", architecture="bert"
        )


def test_settings_lost_in_export_are_remarked(tmp_path):
    family = build_family("encoder", **BERT, boundary=True)
    report = export_model(build_model(family), family, tokenizer(), tmp_path / "out")
    assert any("boundary" in remark for remark in report.remarks)
    family = build_family("decoder", **LLAMA, dropout=0.1)
    report = export_model(build_model(family), family, tokenizer(), tmp_path / "other")
    assert any("dropout = 0.1" in remark for remark in report.remarks)
    with pytest.raises(UserError, match="is already there"):
        export_model(build_model(family), family, tokenizer(), tmp_path / "other")
