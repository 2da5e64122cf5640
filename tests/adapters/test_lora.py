"""LoRA: target matching, the low-rank update, merging."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.small_models import (
    LIKE_BERT,
    LIKE_LLAMA,
    VOCABULARY,
    batch_of,
    body,
    classifier,
    family_of,
    outputs,
    perturbed,
    same_bits,
)
from torch import nn

from regard.adapters.ledger import ledger, trained_tensors
from regard.adapters.lora import Lora, LoraLinear, linear_layers, match_targets
from regard.attention.kinds import ATTENTION
from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.nn.linear import Linear

sizes = st.integers(1, 12)


@given(sizes, sizes, st.integers(1, 6), st.floats(0.5, 64.0), st.booleans(), st.integers(0, 99))
def test_a_layer_adds_the_low_rank_update_and_merges_to_the_same(i, o, rank, alpha, bias, seed):
    generator = torch.Generator().manual_seed(seed)
    base = Linear(i, o, bias=bias).double()
    weight = base.weight.detach().clone()
    a, b = (torch.randn(shape, generator=generator).double() for shape in ((rank, i), (o, rank)))
    layer = LoraLinear(base, a, scale=alpha / rank, dropout=0.0)
    x = torch.randn(3, i, generator=generator).double()
    assert torch.equal(layer(x), base(x))
    with torch.no_grad():
        layer.lora_B.copy_(b)
    update = sum(torch.outer(b[:, r], a[r]) for r in range(rank)) * alpha / rank
    expected = x @ (weight + update).T + (base.bias if bias else 0.0)
    assert torch.allclose(layer(x), expected, atol=1e-9)
    assert sum(p.numel() for n, p in layer.named_parameters() if "lora" in n) == rank * (i + o)
    plain = layer.merge()
    assert type(plain) is Linear
    assert plain.weight is base.weight
    assert torch.allclose(plain(x), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("table", [{}, LIKE_LLAMA], ids=["plain", "like-llama"])
@pytest.mark.parametrize(
    ("precision", "alpha", "bound"),
    # In float64 for an update larger than the weights, which sharpens every softmax and amplifies
    # rounding; in float32 for a smaller one.
    [(torch.float64, 16.0, 1e-12), (torch.float32, 1.0, 1e-5)],
)
def test_merged_equals_unmerged_with_the_names_of_the_base(name, table, precision, alpha, bound):
    model, plain = (body(name, **table).to(precision) for _ in range(2))
    adapter = Lora(rank=3, alpha=alpha, targets=("*",))
    adapter.apply(model, seed=0)
    before = outputs(perturbed(model))
    assert not torch.allclose(before, outputs(plain), atol=1e-2)
    adapter.merge(model)
    difference = (outputs(model) - before).abs().max() / before.abs().max()
    assert difference <= bound
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert not any(isinstance(module, LoraLinear) for module in model.modules())


def test_a_fresh_lora_keeps_the_sign_of_zero():
    """It adds zeros, and −0 stays −0."""
    base = nn.Linear(4, 3)
    nn.init.zeros_(base.weight)
    nn.init.zeros_(base.bias)
    layer = LoraLinear(base, torch.randn(2, 4), scale=2.0, dropout=0.0)
    x = torch.tensor([[0.0, -0.0, 1.0, -1.0]])
    assert same_bits(layer(x), base(x))


def test_dropout_acts_on_the_update_alone_and_only_in_training():
    base = nn.Linear(8, 8)
    layer = LoraLinear(base, torch.randn(2, 8), scale=1.0, dropout=0.5).train()
    x = torch.randn(4, 8)
    assert torch.equal(layer(x), base(x))
    nn.init.ones_(layer.lora_B)
    torch.manual_seed(0)
    first = layer(x)
    assert not torch.allclose(first, layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_the_base_keeps_its_tensors_and_names():
    model = classifier()
    before = dict(model.named_parameters())
    Lora(rank=2).apply(model, seed=0)
    after = dict(model.named_parameters())
    assert all(after[name] is parameter for name, parameter in before.items())
    assert sorted(after.keys() - before.keys()) == sorted(
        f"body.stack.blocks.{block}.attention.{layer}.lora_{matrix}"
        for block in (0, 1)
        for layer in ("query", "value")
        for matrix in "AB"
    )
    assert after["body.stack.blocks.0.attention.query.lora_A"].shape == (2, 16)
    assert not after["body.stack.blocks.0.attention.query.lora_B"].any()


NAMES = [
    f"{side}.blocks.{block}.{layer}"
    for side in ("encoder", "decoder")
    for block in (0, 1, 10)
    for layer in ("attention.query", "cross_attention.query", "mlp.up_proj")
]


@pytest.mark.parametrize(
    ("targets", "count"),
    [
        (("query",), 12),
        (("attention.query",), 6),
        (("cross_attention.*",), 6),
        (("blocks.1.*",), 6),
        (("decoder.*",), 9),
        (("*",), 18),
        (("query", "up_proj"), 18),
        (("up_pr?j",), 6),
        (("decoder.blocks.10.mlp.up_proj",), 1),
    ],
)
def test_targets_match_the_ends_of_layer_names(targets, count):
    matched = match_targets(targets, NAMES)
    assert len(matched) == count
    assert matched == [name for name in NAMES if name in matched]


@pytest.mark.parametrize("target", ["keys", "uery", "attention", "blocks.2.*", "Query"])
def test_an_unmatched_target_is_an_error_that_lists_the_layers(target):
    with pytest.raises(UserError, match=r"adapt\.targets: no linear layer.*attention\.query"):
        match_targets(("query", target), NAMES)


def test_an_empty_list_of_targets_is_refused():
    with pytest.raises(UserError, match=r"targets = \[\] is not allowed"):
        read_settings(Lora, {"targets": []}, key="adapt")


def test_a_rank_above_full_rank_is_refused():
    message = r"adapt\.rank: a rank of 9 is more than 8, .*blocks\.0\.attention\.key \(16 × 8\)"
    adapter = Lora(rank=9, targets=("query", "key"))
    model = body("decoder", **LIKE_LLAMA)
    for call in (
        lambda: adapter.apply(model, seed=0),
        lambda: adapter.count_parameters(family_of("decoder", **LIKE_LLAMA), vocabulary=VOCABULARY),
    ):
        with pytest.raises(UserError, match=message + r".*Give at most 8"):
            call()
    Lora(rank=8, targets=("query", "key")).apply(model, seed=0)


def test_layers_outside_the_backbone_are_no_targets():
    table = {**LIKE_BERT, "boundary": True}
    model = body("encoder", **table)
    assert all(name.startswith("stack.") for name in linear_layers(model))
    with pytest.raises(UserError, match=r"is named 'head\.transform\.linear'"):
        Lora(targets=("head.transform.linear",)).apply(classifier("encoder", **table), seed=0)
    with pytest.raises(UserError, match="is named 'tokens'"):
        Lora(targets=("tokens",)).apply(model, seed=0)
    with pytest.raises(UserError, match=r"is named 'pooler\.\*'"):
        Lora(targets=("pooler.*",)).apply(classifier("encoder", **LIKE_BERT), seed=0)


def test_the_task_head_is_no_target():
    with pytest.raises(UserError, match="is named 'labels'"):
        Lora(targets=("labels",)).apply(classifier(), seed=0)


def test_lora_adapts_the_attention_of_a_recurrent_model():
    model, family = body("recurrent", attention="dot"), family_of("recurrent", attention="dot")
    adapter = Lora(rank=2, targets=("query", "join"))
    adapter.apply(model, seed=0)
    assert ledger(model, adapter, family, vocabulary=VOCABULARY).total == 2 * (32 + 48)
    with pytest.raises(UserError, match="no linear layer for LoRA to adapt"):
        Lora().apply(body("recurrent"), seed=0)


@pytest.mark.parametrize("attention", ATTENTION.names())
@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("decoder", {}),
        ("decoder", {"activation": "swiglu", "biases": False}),
        ("encoder", {**LIKE_BERT, "boundary": True}),
        ("encoder", {"patch_dim": 5, "positions": {"kind": "learned"}}),
        ("encoder-decoder", {}),
    ],
)
def test_linear_shapes_equal_the_layers_of_the_model(name, table, attention):
    family = family_of(name, **table, attention=attention)
    built = linear_layers(family.build(vocabulary=VOCABULARY, seed=0))
    shapes = {path: tuple(shape) for path, shape in family.linear_layers().items()}
    assert shapes == {path: (one.in_features, one.out_features) for path, one in built.items()}


@pytest.mark.parametrize("projections", ["shared-qk", "shared-qkv"])
def test_shared_projections_have_fewer_linear_layers(projections):
    family = family_of("decoder", projections=projections)
    assert (
        family.linear_layers().keys()
        == linear_layers(body("decoder", projections=projections)).keys()
    )


def test_both_matrices_get_gradients():
    model = classifier()
    Lora(rank=2, targets=("*",)).apply(model, seed=0)
    perturbed(model)
    model(batch_of())["label"].sum.backward()
    assert all(bool(p.grad.any()) for n, p in trained_tensors(model).items() if "lora" in n)
