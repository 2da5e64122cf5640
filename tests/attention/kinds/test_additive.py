"""Additive attention: scores by hand, and the blocked path equals the explicit one."""

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.attend import attend
from regard.attention.function import HeadShape
from regard.attention.kinds.additive import Additive
from regard.attention.masks import mask as masks
from regard.attention.multi_head import build_mixer
from regard.attention.paths import additive_blocks
from regard.attention.paths.query_blocks import BlockSize
from regard.attention.token_positions import TokenPositions


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def build_function(*, heads: int = 2, width: int = 3, hidden: int = 0, biases: bool = True):
    torch.manual_seed(0)
    shape = HeadShape(width=width, heads=heads, biases=biases)
    return Additive(hidden=hidden).build(shape).double()


def example_masks(batch: int, queries: int, keys: int, seed: int) -> dict[str, masks.Mask]:
    generator = torch.Generator().manual_seed(seed)
    valid = torch.rand(batch, keys, generator=generator) > 0.4  # some rows may be fully masked
    groups = torch.randint(0, 2, (batch, max(queries, keys)), generator=generator)
    return {
        "causal": masks.causal(),
        "bidirectional": masks.bidirectional(),
        "causal & padding": masks.causal() & masks.padding(valid),
        "window & groups": masks.sliding_window(3) & masks.same_group(groups),
        "blocks & padding": masks.same_block(3) & masks.padding(valid),
        "one head fully masked": masks.Mask(lambda b, h, i, j: (h > 0) & (j <= i), "h > 0"),
        "nothing": ~masks.bidirectional(),
    }


def test_scores_by_hand():
    function = build_function(heads=1, width=2, hidden=1)
    with torch.no_grad():
        function.query_weight.copy_(torch.tensor([[[1.0], [2.0]]]))
        function.key_weight.copy_(torch.tensor([[[0.5], [-1.0]]]))
        function.bias.fill_(0.25)
        function.out_weight.fill_(3.0)
    q = torch.tensor([[[[0.5, -0.25]]]], dtype=torch.float64)  # W_q q = 0
    k = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]], dtype=torch.float64)  # W_k k = 0.5, −1
    expected = [3 * math.tanh(0.75), 3 * math.tanh(-0.75)]
    assert function.scores(q, k).flatten().tolist() == pytest.approx(expected, abs=1e-15)
    weights = attend(q, k, k, function=function, need_weights=True).weights.detach().flatten()
    assert float(weights[0]) == pytest.approx(1 / (1 + math.exp(-6 * math.tanh(0.75))), abs=1e-15)


def test_each_head_has_its_own_parameters():
    function, x = build_function(heads=2), draw(0, 1, 1, 4, 3)
    scores = function.scores(x.expand(1, 2, 4, 3), x.expand(1, 2, 4, 3))
    assert not torch.allclose(scores[:, 0], scores[:, 1])


class Case(NamedTuple):
    """Inputs on which the blocked path is compared with the explicit one."""

    seed: int
    batch: int
    heads: int
    queries: int
    cached: int
    hidden: int
    mask: str
    bias_rows: int
    "0: no bias; 1: one for all rows; 2: one each."
    inner_values: int
    dropout: float
    dtype: torch.dtype


CASES = st.builds(
    Case,
    seed=st.integers(0, 10_000),
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    queries=st.integers(1, 9),
    cached=st.integers(0, 4),
    hidden=st.integers(1, 5),
    mask=st.sampled_from(list(example_masks(1, 1, 1, 0))),
    bias_rows=st.sampled_from([0, 1, 2]),
    inner_values=st.sampled_from([1, 60, 300, 10**6]),
    dropout=st.sampled_from([0.0, 0.3]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)


@given(case=CASES)
def test_blocks_equal_explicit(case):
    seed, dtype, keys = case.seed, case.dtype, case.queries + case.cached
    function = build_function(heads=case.heads, hidden=case.hidden, biases=seed % 2 == 0).to(dtype)
    mask = example_masks(case.batch, keys, keys, seed)[case.mask]
    # Block-local attention draws dropout block by block, in another order.
    dropout = 0.0 if mask.structure.block_size else case.dropout
    results = []
    for need_weights in (False, True):
        function.zero_grad()
        q = draw(seed, case.batch, case.heads, case.queries, 3, dtype=dtype)
        k, v = (draw(seed + n, case.batch, case.heads, keys, 3, dtype=dtype) for n in (1, 2))
        rows = (0, 1, case.batch)[case.bias_rows]
        bias = draw(seed + 3, rows, case.heads, case.queries, keys, dtype=dtype) if rows else None
        torch.manual_seed(seed)  # dropout
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(additive_blocks, "SIZE", BlockSize(case.inner_values, queries=16))
            attended = attend(
                q, k, v, mask, function,
                bias=bias, first_query=case.cached, dropout=dropout, need_weights=need_weights,
            )  # fmt: skip
            (attended.out * draw(9, 3, dtype=dtype).detach()).sum().backward()
        leaves = [q, k, v, *function.parameters(), *([] if bias is None else [bias])]
        results.append([attended.out.detach(), *(tensor.grad for tensor in leaves)])
    bound = 1e-5 if dtype == torch.float32 else 1e-12
    for fast, explicit in zip(*results, strict=True):
        scale = max(1.0, float(explicit.abs().max()))
        assert float((fast - explicit).abs().max()) / scale <= bound


def test_the_output_names_the_path():
    function, x = build_function(), draw(0, 1, 2, 7, 3)
    assert attend(x, x, x, masks.causal(), function).path == "query-blocks"
    assert attend(x, x, x, masks.same_block(3), function).path == "blocks, query-blocks"
    long = draw(0, 1, 2, 200, 3)
    assert (
        attend(long, long, long, masks.sliding_window(3), function).path == "stripes, query-blocks"
    )
    assert attend(x, x, x, masks.causal(), function, need_weights=True).path == "explicit"


@pytest.mark.parametrize("inner_values", [1, 10**6])
def test_blocks_pass_gradcheck(monkeypatch, inner_values):
    monkeypatch.setattr(additive_blocks, "SIZE", BlockSize(inner_values, queries=16))
    function = build_function(hidden=2)
    q, k, v = (draw(n, 2, 2, 3, 3) for n in range(3))
    bias = draw(3, 1, 2, 3, 3)
    parameters = list(function.parameters())

    def out(q, k, v, bias, *parameters):
        return attend(q, k, v, masks.causal(), function, bias=bias).out

    assert torch.autograd.gradcheck(out, (q, k, v, bias, *parameters))


def test_keys_outside_the_band_are_not_used(monkeypatch):
    monkeypatch.setattr(additive_blocks, "SIZE", additive_blocks.SIZE._replace(queries=4))
    q = draw(0, 1, 2, 8, 3)
    k = draw(1, 1, 2, 8, 3).detach()
    k[:, :, 4:] = torch.nan  # NaN even with a weight of 0
    out = attend(q, k, k.nan_to_num(), masks.causal(), build_function()).out
    assert torch.isfinite(out[:, :, :4]).all()


def test_the_hidden_layer_is_never_materialised_whole():
    b, h, n, d = 2, 2, 96, 4
    function = build_function(heads=h, width=d).float()
    q, k, v = (draw(s, b, h, n, d, dtype=torch.float32) for s in range(3))
    largest = 0

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            outputs = func(*args, **(kwargs or {}))
            for tensor in outputs if isinstance(outputs, (tuple, list)) else [outputs]:
                largest = max(largest, tensor.numel() if torch.is_tensor(tensor) else 0)
            return outputs

    with pytest.MonkeyPatch.context() as patch, Largest():
        patch.setattr(additive_blocks, "SIZE", BlockSize(4096, queries=16))
        attend(q, k, v, masks.causal(), function).out.sum().backward()
    assert largest <= 4096 < b * h * n * n


@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("biases", [True, False])
def test_own_parameters_equals_the_built_count(hidden, biases):
    shape, kind = HeadShape(width=4, heads=3, biases=biases), Additive(hidden=hidden)
    built = sum(parameter.numel() for parameter in kind.build(shape).parameters())
    m = hidden or 4
    assert kind.own_parameters(shape) == built == 3 * (2 * 4 * m + m + biases * m)


def test_decoding_through_the_cache_equals_one_pass():
    torch.manual_seed(0)
    mixer = build_mixer(Additive(), HeadShape(width=3, heads=2), key_value_heads=1).double()
    x = draw(0, 2, 7, 6).detach()
    expected = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(7)).out
    cache, pieces = mixer.new_cache(7), []
    for begin, end in ((0, 3), (3, 4), (4, 7)):
        positions = TokenPositions.of_row(end)
        pieces.append(
            mixer(x[:, begin:end], mask=masks.causal(), positions=positions, cache=cache).out
        )
    assert torch.allclose(torch.cat(pieces, dim=1), expected, atol=1e-12)


@pytest.mark.usefixtures("bf16_matmul")
def test_bfloat16_autocast():
    function = build_function().float()
    q, k, v = (draw(n, 1, 2, 5, 3, dtype=torch.float32) for n in range(3))
    exact = attend(q, k, v, masks.causal(), function).out
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attend(q, k, v, masks.causal(), function).out
    out.float().sum().backward()
    assert torch.allclose(out.float(), exact, atol=0.05)
    assert all(torch.isfinite(tensor.grad).all() for tensor in (q, k, v, *function.parameters()))
