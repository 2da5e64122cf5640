"""Tensor maps: extract and merge are inverse, every parameter is mapped, other configs refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.interop.test_export_model import MODELS, build_family

from regard.core.errors import UserError
from regard.interop.huggingface.architecture import (
    ARCHITECTURES,
    TensorMapping,
    architecture_class,
    find_architecture,
    merge_tensors,
)
from regard.interop.huggingface.config_keys import ConfigKeys


@given(
    chunks=st.integers(1, 4),
    rows=st.integers(1, 5),
    columns=st.integers(0, 4),
    transposed=st.booleans(),
    skipped_rows=st.integers(0, 3),
)
def test_merge_and_extract_are_inverse(chunks, rows, columns, transposed, skipped_rows):
    skipped_rows = 0 if chunks > 1 else skipped_rows
    shape = (rows, columns) if columns else (rows,)
    mappings = [
        TensorMapping(
            "x",
            chunk=n,
            chunks=chunks,
            transposed=transposed and bool(columns),
            skipped_rows=skipped_rows,
        )
        for n in range(chunks)
    ]
    ours = [torch.randn(shape) for _ in mappings]
    theirs = merge_tensors(list(zip(mappings, ours, strict=True))[::-1])
    assert all(mapping.checkpoint_shape(shape) == tuple(theirs.shape) for mapping in mappings)
    assert all(
        torch.equal(mapping.extract(theirs), tensor)
        for mapping, tensor in zip(mappings, ours, strict=True)
    )


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_mapped_once(name):
    family_name, table, requested = MODELS[name]
    family = build_family(family_name, **table)
    architectures = [
        architecture_class(entry.name)()
        for entry in ARCHITECTURES
        if architecture_class(entry.name).family == family_name
    ]
    architecture = next(
        one
        for one in architectures
        if not one.unsupported_settings(family) and requested in (None, one.name)
    )
    mappings = architecture.tensor_map(family)
    model = family.build(vocabulary=30, seed=0)
    assert mappings.keys() == dict(model.named_parameters()).keys()
    targets = [(mapping.name, mapping.chunk) for mapping in mappings.values()]
    assert len(set(targets)) == len(targets)


@pytest.mark.parametrize("name", MODELS)
def test_every_linear_layer_of_the_body_is_mapped(name):
    family_name, table, _ = MODELS[name]
    family = build_family(family_name, **table)
    model = family.build(vocabulary=30, seed=0)
    linear = {
        path
        for path, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and not path.startswith("head")
    }
    for entry in ARCHITECTURES:
        architecture = architecture_class(entry.name)()
        if architecture.family == family_name and not architecture.unsupported_settings(family):
            assert architecture.module_names(family).keys() == linear


def test_fused_modules_are_mapped_to_chunks():
    family = build_family("decoder")
    modules = architecture_class("gpt2")().module_names(family)
    assert modules["stack.blocks.1.attention.value"] == TensorMapping(
        "h.1.attn.c_attn", chunk=2, chunks=3, transposed=True
    )


BERT = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}
LLAMA = {**BERT, "model_type": "llama"}
GPT2 = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 4}


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        (BERT, {"position_embedding_type": "relative_key"}),
        (BERT, {"is_decoder": True}),
        (BERT, {"add_cross_attention": True}),
        (BERT, {"hidden_act": "silu"}),
        (BERT, {"layer_norm_eps": "small"}),
        (BERT, {"tie_word_embeddings": "yes"}),
        (BERT, {"hidden_size": True}),
        (GPT2, {"scale_attn_weights": False}),
        (GPT2, {"scale_attn_by_inverse_layer_idx": True}),
        (GPT2, {"add_cross_attention": True}),
        (GPT2, {"activation_function": "swish"}),
        (LLAMA, {"hidden_act": "gelu"}),
        (LLAMA, {"head_dim": 8}),
        (LLAMA, {"attention_bias": True}),
        (LLAMA, {"partial_rotary_factor": 0.5}),
        (LLAMA, {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": 2.0}}),
        (LLAMA, {"rope_parameters": {"rope_type": "yarn"}}),
        (LLAMA, {"rope_parameters": 3}),
    ],
)
def test_unsupported_config_is_refused_by_key(config, changes):
    keys = ConfigKeys({**config, **changes}, file="config.json")
    with pytest.raises(UserError) as error:
        find_architecture(keys).settings(keys, frozenset(), [])
    key, value = next(iter(changes.items()))
    assert key in str(error.value)
    if isinstance(value, dict):
        assert next(iter(value)) in str(error.value)


def test_the_unchanged_configs_are_supported():
    for config in (BERT, LLAMA, GPT2):
        keys = ConfigKeys({**config, "rope_scaling": None}, file="config.json")
        assert find_architecture(keys).settings(keys, frozenset(), [])["layers"] == 2


def test_rope_theta_in_old_and_new_configs():
    for table in ({"rope_theta": 7.5}, {"rope_parameters": {"rope_theta": 7.5}}):
        keys = ConfigKeys({**LLAMA, **table}, file="config.json")
        assert find_architecture(keys).settings(keys, frozenset(), [])["positions"]["base"] == 7.5


def test_unknown_model_type_lists_the_known_ones():
    with pytest.raises(UserError, match=r"model_type is 't5'.*bert, gpt2, llama"):
        find_architecture(ConfigKeys({"model_type": "t5"}, file="config.json"))
    with pytest.raises(UserError, match="model_type is missing"):
        find_architecture(ConfigKeys({}, file="config.json"))
    with pytest.raises(UserError, match="model_type is"):
        find_architecture(ConfigKeys({"model_type": ["bert"]}, file="config.json"))
