"""Products of a few rows and looks at the past equal torch's."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.cache import KVCache
from regard.nn import activations
from regard.nn.packed_linear import pack_layers
from regard.ops.cpu import decode, library


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 19),
    inputs=st.integers(1, 70),
    outputs=st.integers(1, 130),
    biased=st.booleans(),
    bend=st.sampled_from(
        [activations.IDENTITY, activations.RELU, activations.GELU_TANH, activations.GELU]
    ),
    seed=st.integers(0, 99),
)
def test_a_product_is_that_of_the_layer(rows, inputs, outputs, biased, bend, seed):
    torch.manual_seed(seed)
    layer, x = torch.nn.Linear(inputs, outputs, bias=biased), torch.randn(rows, inputs)
    with torch.inference_mode():
        product = pack_layers([layer], laid_out_for=rows, bend=bend)
        wanted = bend.plain(layer.double()(x.double()))
        layer.float()
        scale = max(wanted.abs().max().item(), 1e-2)
        assert (product(x) - wanted).abs().max() <= 1e-5 * scale
        assert (product(x[0]) - wanted[0]).abs().max() <= 1e-5 * scale


def test_gelu_far_from_0_is_the_line_or_nothing():
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(layer.weight)
    x = torch.tensor([[-1e4], [-30.0], [30.0], [1e4], [torch.nan]])
    with torch.inference_mode():
        bent = pack_layers([layer], laid_out_for=5, bend=activations.GELU_TANH)(x)
    assert torch.allclose(bent[:4], x[:4].clamp(min=0), atol=1e-30)
    assert bent[4].isnan()


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 5),
    kept_heads=st.integers(1, 3),
    share=st.integers(1, 3),
    length=st.integers(0, 70),
    vectors=st.integers(1, 5),
    padded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_look_is_attention_from_the_newest_place(
    rows, kept_heads, share, length, vectors, padded, seed
):
    d = vectors * library.LIBRARY.lanes
    torch.manual_seed(seed)
    keys, values = (torch.randn(rows, kept_heads, 72, d) for _ in "kv")
    made = torch.randn(rows, kept_heads * (share + 2), 1, d)
    added = None
    if padded:
        blind = torch.arange(length + 1) < torch.randint(0, length + 1, (rows, 1))
        added = torch.zeros(rows, length + 1).masked_fill(blind, -torch.inf)[:, None, None]
    assert decode.supports_decode_attention(made, keys, values)
    q, k, v = made.split([share * kept_heads, kept_heads, kept_heads], dim=1)
    all_keys, all_values = (
        torch.cat([kept[:, :, :length], new], dim=2).repeat_interleave(share, dim=1)
        for kept, new in ((keys, k), (values, v))
    )
    given = (x.double() for x in (q, all_keys, all_values))
    mask = None if added is None else added.double()
    wanted = F.scaled_dot_product_attention(*given, attn_mask=mask).reshape(rows, -1)
    found = decode.decode_attention(made, keys, values, length=length, added=added)
    assert (found - wanted).abs().max() <= 1e-5 * wanted.abs().max()
    assert torch.equal(keys[:, :, length], k.squeeze(2))
    assert torch.equal(values[:, :, length], v.squeeze(2))


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_scores_of_any_size_can_be_looked_by(size):
    torch.manual_seed(0)
    keys, values = torch.randn(1, 1, 9, 16), torch.randn(1, 1, 9, 16)
    made = torch.randn(1, 3, 1, 16)
    made[:, 0] *= size
    found = decode.decode_attention(made, keys, values, length=8, added=None)
    wanted = F.scaled_dot_product_attention(made[:, :1].double(), keys.double(), values.double())
    assert (found - wanted.view(1, 16)).abs().max() <= 1e-5 * wanted.abs().max()


def test_a_full_cache_takes_no_more():
    cache = KVCache(capacity=3)
    cache.extend(*(torch.randn(1, 2, 3, 16) for _ in "kv"))
    made = torch.randn(1, 6, 1, 16)
    assert not cache.takes_newest(made)
    with pytest.raises(RuntimeError):
        cache.extend(made[:, :2], made[:, :2])


def test_what_does_not_fit_the_cache_is_not_taken():
    cache = KVCache(capacity=9)
    cache.extend(*(torch.randn(2, 2, 3, 16) for _ in "kv"))
    assert cache.takes_newest(torch.randn(2, 6, 1, 16))
    assert not cache.takes_newest(torch.randn(3, 6, 1, 16))
    assert not cache.takes_newest(torch.randn(2, 6, 1, 32))
    assert not cache.takes_newest(torch.randn(6, 2, 1, 16).transpose(0, 1))
    assert not cache.takes_newest(torch.randn(2, 6, 1, 16, dtype=torch.float64))


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(2, 5),
        torch.randn(2, 4, dtype=torch.float64),
        torch.randn(2, 3, 4),
        torch.tensor(1.0),
    ],
)
def test_a_product_refuses_other_rows(x):
    with (
        torch.inference_mode(),
        pytest.raises(ValueError, match=r"expected \(rows, 4\) or \(4,\) of float32"),
    ):
        pack_layers([torch.nn.Linear(4, 3)], laid_out_for=2)(x)
