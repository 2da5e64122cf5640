"""Places take tensors apart and put them together again; every architecture knows all its own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.interop.test_export_model import MODELS, family_of

from regard.core.errors import UserError
from regard.interop.huggingface.architecture import (
    ARCHITECTURES,
    TensorMapping,
    architecture_of,
    joined,
    kind_of,
)
from regard.interop.huggingface.config_keys import Keys


@given(
    parts=st.integers(1, 4),
    rows=st.integers(1, 5),
    columns=st.integers(0, 4),
    turned=st.booleans(),
    skipped=st.integers(0, 3),
)
def test_joined_and_taken_are_inverse(parts, rows, columns, turned, skipped):
    skipped = 0 if parts > 1 else skipped
    shape = (rows, columns) if columns else (rows,)
    mappings = [
        TensorMapping("x", part=n, parts=parts, turned=turned and bool(columns), skipped=skipped)
        for n in range(parts)
    ]
    ours = [torch.randn(shape) for _ in mappings]
    theirs = joined(list(zip(mappings, ours, strict=True))[::-1])
    assert all(place.shape_there(shape) == tuple(theirs.shape) for place in mappings)
    assert all(
        torch.equal(place.taken(theirs), tensor)
        for place, tensor in zip(mappings, ours, strict=True)
    )


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_has_a_place_of_its_own(name):
    sort, table, asked = MODELS[name]
    family = family_of(sort, **table)
    fitting = [
        kind_of(entry.name)() for entry in ARCHITECTURES if kind_of(entry.name).family == sort
    ]
    there = next(one for one in fitting if not one.misfits(family) and asked in (None, one.name))
    mappings = there.tensor_map(family)
    model = family.build(vocabulary=30, seed=0)
    assert mappings.keys() == dict(model.named_parameters()).keys()
    standing = [(place.name, place.part) for place in mappings.values()]
    assert len(set(standing)) == len(standing)


@pytest.mark.parametrize("name", MODELS)
def test_every_linear_layer_of_the_body_has_a_module(name):
    sort, table, _ = MODELS[name]
    family = family_of(sort, **table)
    model = family.build(vocabulary=30, seed=0)
    linear = {
        path
        for path, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and not path.startswith("head")
    }
    for entry in ARCHITECTURES:
        there = kind_of(entry.name)()
        if there.family == sort and not there.misfits(family):
            assert there.module_names(family).keys() == linear


def test_fused_modules_say_which_part_they_are():
    family = family_of("decoder")
    modules = kind_of("gpt2")().module_names(family)
    assert modules["stack.blocks.1.attention.value"] == TensorMapping(
        "h.1.attn.c_attn", part=2, parts=3, turned=True
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
def test_what_cannot_be_done_exactly_is_refused_by_its_key(config, changes):
    keys = Keys({**config, **changes}, file="config.json")
    with pytest.raises(UserError) as told:
        architecture_of(keys).settings(keys, frozenset(), [])
    key, value = next(iter(changes.items()))
    assert key in str(told.value)
    if isinstance(value, dict):
        assert next(iter(value)) in str(told.value)


def test_each_of_these_configs_is_fine_otherwise():
    for config in (BERT, LLAMA, GPT2):
        keys = Keys({**config, "rope_scaling": None}, file="config.json")
        assert architecture_of(keys).settings(keys, frozenset(), [])["layers"] == 2


def test_the_base_of_the_rotation_in_old_and_new_configs():
    for table in ({"rope_theta": 7.5}, {"rope_parameters": {"rope_theta": 7.5}}):
        keys = Keys({**LLAMA, **table}, file="config.json")
        assert architecture_of(keys).settings(keys, frozenset(), [])["positions"]["base"] == 7.5


def test_an_unknown_architecture_names_the_known():
    with pytest.raises(UserError, match=r"model_type is 't5': regard reads bert, gpt2, llama"):
        architecture_of(Keys({"model_type": "t5"}, file="config.json"))
    with pytest.raises(UserError, match="model_type is missing"):
        architecture_of(Keys({}, file="config.json"))
    with pytest.raises(UserError, match="model_type is"):
        architecture_of(Keys({"model_type": ["bert"]}, file="config.json"))
