"""Exported folders load in transformers with the same outputs, and come back bit for bit."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from tests.interop.theirs import SMALL, VOCABULARY, loaded, padded_rows, saved, shaken, tokenizer

from regard.core.errors import UserError
from regard.core.settings import read_settings, settings_class, to_table
from regard.interop.export_model import export_model
from regard.interop.import_model import import_model
from regard.models.families import FAMILIES

WITHIN = 1e-5
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


def family_of(name: str, **table):
    return read_settings(settings_class(FAMILIES, name), {**SIZE, **table})


def model_of(family, *, rows: int = VOCABULARY):
    model = family.build(vocabulary=rows, seed=0)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_transformers_loads_it_and_gives_the_same(name, tmp_path):
    sort, table, architecture = MODELS[name]
    family = family_of(sort, **table)
    ours = model_of(family)
    export_model(ours, family, tokenizer(), tmp_path / "out", architecture=architecture)
    ids, valid = padded_rows()
    scored = sort == "decoder" or table.get("head_transform")
    if scored:
        kind = (
            transformers.AutoModelForCausalLM
            if sort == "decoder"
            else transformers.AutoModelForMaskedLM
        )
        theirs, told = kind.from_pretrained(tmp_path / "out", output_loading_info=True)
        assert not told["missing_keys"]
        logits = theirs.eval()(input_ids=ids, attention_mask=valid.long()).logits
        assert (ours.logits(ids, valid=valid) - logits)[valid].abs().max() < WITHIN
    body = transformers.AutoModel.from_pretrained(tmp_path / "out").eval()
    vectors = body(input_ids=ids, attention_mask=valid.long())
    found = ours.hidden_states(ids, valid=valid)
    assert (found - vectors.last_hidden_state)[valid].abs().max() < WITHIN
    if ours.pooler is not None if sort == "encoder" else False:
        assert (ours.pooler(found[:, 0]) - vectors.pooler_output).abs().max() < WITHIN


@pytest.mark.parametrize("name", MODELS)
def test_out_and_in_again_is_the_same_bit_for_bit(name, tmp_path):
    sort, table, architecture = MODELS[name]
    family = family_of(sort, **table)
    ours = model_of(family, rows=VOCABULARY + 2)
    export_model(ours, family, tokenizer(), tmp_path / "out", architecture=architecture)
    imported = import_model(str(tmp_path / "out"), tmp_path / "in")
    again, read = loaded(tmp_path / "in")
    assert to_table(read) == to_table(family)
    assert imported.unused == imported.unfilled == []
    first, second = ours.state_dict(), again.state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert imported.tokenizer.fingerprint == tokenizer().fingerprint


def test_in_and_out_again_holds_the_same_tensors(tmp_path):
    from safetensors.torch import load_file

    config = transformers.RobertaConfig(**SMALL, type_vocab_size=1)
    theirs = shaken(transformers.RobertaForMaskedLM(config))
    folder = saved(theirs, tmp_path / "theirs")
    import_model(str(folder), tmp_path / "ours")
    model, family = loaded(tmp_path / "ours")
    export_model(model, family, tokenizer(), tmp_path / "back", architecture="roberta")
    first = load_file(folder / "model.safetensors")
    second = load_file(tmp_path / "back" / "model.safetensors")
    assert first.keys() <= second.keys()
    for name, tensor in first.items():
        skipped = 2 if "position_embeddings" in name else 0  # rows that stand for no place
        assert torch.equal(tensor[skipped:], second[name][skipped:])


def test_the_tokenizer_comes_along(tmp_path):
    family = family_of("decoder")
    export_model(model_of(family), family, tokenizer(), tmp_path / "out")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    text = "word3 word7 word1 else"
    assert theirs(text, add_special_tokens=False)["input_ids"] == tokenizer().encode(text)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"], config["pad_token_id"]) == (0, 2, 1)


@pytest.mark.parametrize(
    ("sort", "table", "said"),
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
def test_settings_that_nobody_else_has_are_named(sort, table, said, tmp_path):
    family = family_of(sort, **table)
    with pytest.raises(UserError) as told:
        export_model(model_of(family), family, tokenizer(), tmp_path / "out")
    assert said in str(told.value)
    assert not (tmp_path / "out").exists()


def test_an_architecture_of_another_family_is_refused(tmp_path):
    family = family_of("decoder")
    with pytest.raises(UserError, match="no architecture bert is made as family decoder"):
        export_model(model_of(family), family, tokenizer(), tmp_path / "out", architecture="bert")


def test_what_has_no_place_there_is_said(tmp_path):
    family = family_of("encoder", **BERT, boundary=True)
    told = export_model(model_of(family), family, tokenizer(), tmp_path / "out")
    assert any("boundary" in remark for remark in told.remarks)
    family = family_of("decoder", **LLAMA, dropout=0.1)
    told = export_model(model_of(family), family, tokenizer(), tmp_path / "other")
    assert any("dropout = 0.1" in remark for remark in told.remarks)
    with pytest.raises(UserError, match="is already there"):
        export_model(model_of(family), family, tokenizer(), tmp_path / "other")
