"""The decode-step kernels equal torch's linear layers and attention."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.cache import KVCache
from regard.nn import activations
from regard.nn.mlp import ACTIVATIONS
from regard.nn.packed_linear import pack_layers
from regard.ops.cpu import decode, library


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 19),
    inputs=st.integers(1, 70),
    outputs=st.integers(1, 130),
    biased=st.booleans(),
    activation=st.sampled_from(
        [activations.IDENTITY, activations.RELU, activations.GELU_TANH, activations.GELU]
    ),
    seed=st.integers(0, 99),
)
def test_packed_linear_equals_linear(rows, inputs, outputs, biased, activation, seed):
    torch.manual_seed(seed)
    layer, x = torch.nn.Linear(inputs, outputs, bias=biased), torch.randn(rows, inputs)
    with torch.inference_mode():
        packed = pack_layers([layer], packed_for=rows, activation=activation)
        expected = activation.reference(layer.double()(x.double()))
        layer.float()
        scale = max(expected.abs().max().item(), 1e-2)
        assert (packed(x) - expected).abs().max() <= 1e-5 * scale
        assert (packed(x[0]) - expected[0]).abs().max() <= 1e-5 * scale


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activations_saturate_and_propagate_nan(activation):
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(layer.weight)
    far = [-1e18, -1e13, -1e4, -30.0, 30.0, 1e4, 1e13, 1e18]
    x = torch.tensor([*far, torch.nan])[:, None]
    with torch.inference_mode():
        y = pack_layers([layer], packed_for=len(x), activation=activation)(x)
    assert torch.allclose(y[:-1], x[:-1].clamp(min=0), atol=1e-15)
    assert y[-1].isnan()


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 5),
    key_value_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    length=st.integers(0, 70),
    vectors=st.integers(1, 5),
    padded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_decode_attention_equals_attention_of_the_last_position(
    rows, key_value_heads, group, length, vectors, padded, seed
):
    d = vectors * library.LIBRARY.lanes
    torch.manual_seed(seed)
    keys, values = (torch.randn(rows, key_value_heads, 72, d) for _ in "kv")
    qkv = torch.randn(rows, key_value_heads * (group + 2), 1, d)
    bias = None
    if padded:
        masked = torch.arange(length + 1) < torch.randint(0, length + 1, (rows, 1))
        bias = torch.zeros(rows, length + 1).masked_fill(masked, -torch.inf)[:, None, None]
    assert decode.supports_decode_attention(qkv, keys, values)
    q, k, v = qkv.split([group * key_value_heads, key_value_heads, key_value_heads], dim=1)
    all_keys, all_values = (
        torch.cat([cached[:, :, :length], new], dim=2).repeat_interleave(group, dim=1)
        for cached, new in ((keys, k), (values, v))
    )
    inputs = (x.double() for x in (q, all_keys, all_values))
    mask = None if bias is None else bias.double()
    expected = F.scaled_dot_product_attention(*inputs, attn_mask=mask).reshape(rows, -1)
    out = decode.decode_attention(qkv, keys, values, length=length, bias=bias)
    assert (out - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert torch.equal(keys[:, :, length], k.squeeze(2))
    assert torch.equal(values[:, :, length], v.squeeze(2))


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_decode_attention_with_large_scores(scale):
    torch.manual_seed(0)
    keys, values = torch.randn(1, 1, 9, 16), torch.randn(1, 1, 9, 16)
    qkv = torch.randn(1, 3, 1, 16)
    qkv[:, 0] *= scale
    out = decode.decode_attention(qkv, keys, values, length=8, bias=None)
    expected = F.scaled_dot_product_attention(qkv[:, :1].double(), keys.double(), values.double())
    assert (out - expected.view(1, 16)).abs().max() <= 1e-5 * expected.abs().max()


def test_full_cache_refuses_another_position():
    cache = KVCache(capacity=3)
    cache.extend(*(torch.randn(1, 2, 3, 16) for _ in "kv"))
    qkv = torch.randn(1, 6, 1, 16)
    assert not cache.supports_fused_step(qkv)
    with pytest.raises(RuntimeError):
        cache.extend(qkv[:, :2], qkv[:, :2])


def test_cache_refuses_other_shapes_strides_and_dtypes():
    cache = KVCache(capacity=9)
    cache.extend(*(torch.randn(2, 2, 3, 16) for _ in "kv"))
    assert cache.supports_fused_step(torch.randn(2, 6, 1, 16))
    assert not cache.supports_fused_step(torch.randn(3, 6, 1, 16))
    assert not cache.supports_fused_step(torch.randn(2, 6, 1, 32))
    assert not cache.supports_fused_step(torch.randn(6, 2, 1, 16).transpose(0, 1))
    assert not cache.supports_fused_step(torch.randn(2, 6, 1, 16, dtype=torch.float64))


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(2, 5),
        torch.randn(2, 4, dtype=torch.float64),
        torch.randn(2, 3, 4),
        torch.tensor(1.0),
    ],
)
def test_packed_linear_refuses_other_shapes_and_dtypes(x):
    with (
        torch.inference_mode(),
        pytest.raises(ValueError, match=r"expected \(rows, 4\) or \(4,\) of float32"),
    ):
        pack_layers([torch.nn.Linear(4, 3)], packed_for=2)(x)


def test_dispatch_modes_see_torchs_operations():
    """Decode kernels are no operators: a counter would miss them, a fake tensor has no memory."""
    layer, x = torch.nn.Linear(32, 48), torch.randn(3, 32)
    qkv, keys = torch.randn(3, 4, 1, 16), torch.randn(3, 1, 8, 16)
    assert decode.supports_decode_attention(qkv, keys, keys)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        pack_layers([layer], packed_for=3)(x)
        assert not decode.supports_decode_attention(qkv, keys, keys)
    assert counter.get_total_flops() == 2 * 3 * 32 * 48
