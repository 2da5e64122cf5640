"""The two kinds that are wrong on purpose: by hand, that they leak, and where it shows."""

import math

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION, AttentionKind, BrokenKind, kind
from regard.attention.kinds.dot import Dot, DotProduct
from regard.attention.kinds.soft_masked import SoftMasked
from regard.attention.kinds.zero_masked import ZeroMasked
from regard.attention.masks import mask as masks
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError
from regard.core.settings import read_settings

SHAPE = HeadShape(width=4, heads=1)
BROKEN = [ZeroMasked(), SoftMasked()]
NOTHING = masks.Mask(lambda b, h, i, j: (i + j) < 0, "nothing")


def draw(seed: int, positions: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(
        1, 1, positions, 4, generator=generator, dtype=torch.float64
    ).requires_grad_()


def leak(kind) -> float:
    """The largest derivative of the first query's output by a key or value it may not see."""
    q, k, v = draw(0), draw(1), draw(2)
    out = attend(q, k, v, masks.causal(), kind.build(SHAPE)).out[0, 0, 0].square().sum()
    of_k, of_v = torch.autograd.grad(out, (k, v), materialize_grads=True)
    return float(torch.stack((of_k, of_v))[..., 1:, :].abs().max())


def test_the_mask_comes_after_the_softmax():
    # Three keys with the scores log 1, log 2, log 5, of which the query may see the first two.
    function = ZeroMasked().build(SHAPE)
    scores = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()
    weights = function.normalise(scores, torch.tensor([True, True, False]))
    assert weights.tolist() == pytest.approx([1 / 8, 2 / 8, 0])  # not 1/3, 2/3, 0


def test_the_penalty_is_finite():
    function = SoftMasked(penalty=math.log(10)).build(SHAPE)
    scores = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()
    weights = function.normalise(scores, torch.tensor([True, True, False]))
    assert weights.tolist() == pytest.approx([1 / 3.5, 2 / 3.5, 0.5 / 3.5])
    assert SoftMasked().penalty == 9.0


def test_the_future_is_sensed():
    assert leak(Dot()) == 0.0
    assert leak(ZeroMasked()) > 1e-3
    assert leak(SoftMasked()) > 1e-6
    assert leak(SoftMasked(penalty=9.0)) > 10 * leak(SoftMasked(penalty=12.0)) > 0.0


def test_zero_masked_leaks_through_keys_alone():
    q, k, v = draw(0), draw(1), draw(2)
    out = attend(q, k, v, masks.causal(), ZeroMasked().build(SHAPE)).out[0, 0, 0].sum()
    of_k, of_v = torch.autograd.grad(out, (k, v))
    assert (of_k[0, 0, 1:].abs().sum(dim=-1) > 0).all()
    assert torch.equal(of_v[0, 0, 1:], torch.zeros(4, 4).double())


def test_a_very_large_penalty_shows_in_an_empty_row_alone():
    kind = SoftMasked(penalty=1e9)
    assert leak(kind) == 0.0
    q, k, v = draw(0), draw(1), draw(2)
    right = attend(q, k, v, masks.causal(), DotProduct()).out
    assert torch.allclose(attend(q, k, v, masks.causal(), kind.build(SHAPE)).out, right)
    out = attend(q, k, v, NOTHING, kind.build(SHAPE)).out
    assert (out.abs().sum(dim=-1) > 0).all()
    in_float32 = attend(*(x.float() for x in (q, k, v)), NOTHING, kind.build(SHAPE)).out
    average = v.float().mean(dim=2, keepdim=True).expand_as(v)  # all keys pay, none counts more
    assert torch.allclose(in_float32, average, atol=1e-6)


def test_an_empty_row_of_zero_masked_is_zeros():
    out = attend(draw(0), draw(1), draw(2), NOTHING, ZeroMasked().build(SHAPE)).out
    assert torch.equal(out, torch.zeros_like(out))


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: type(kind).__name__)
def test_a_narrow_mask_is_not_lowered(kind):
    # Lowered to stripes or blocks, forbidden keys would be gone, and the fault with them.
    x = draw(0, positions=200)
    for mask in (masks.sliding_window(3), masks.same_block(5)):
        attended = attend(x, x, x, mask, kind.build(SHAPE))
        assert attended.path == "explicit"
        assert not torch.allclose(attended.out, attend(x, x, x, mask).out, atol=1e-9)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: type(kind).__name__)
def test_decoding_gives_something_else_than_one_pass(kind):
    torch.manual_seed(0)
    mixer = build_mixer(kind, HeadShape(width=4, heads=2)).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    whole = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(6)).out
    first = mixer(
        x[:, :1], mask=masks.causal(), positions=TokenPositions.of_row(1), cache=mixer.new_cache(6)
    )
    assert not torch.allclose(first.out, whole[:, :1], atol=1e-9)


def test_they_are_marked_as_broken():
    told = {entry.name: entry.properties["broken"] for entry in ATTENTION}
    for name in ("zero-masked", "soft-masked"):
        assert told[name]
        assert "Broken on purpose" in ATTENTION.get(name).summary
    assert ZeroMasked.traits.fails == ("forbidden-keys", "padding", "cache")
    assert SoftMasked.traits.fails == ("empty-rows", "forbidden-keys", "padding", "cache")


@pytest.mark.parametrize("penalty", [0.0, -1.0, math.inf, math.nan])
def test_a_penalty_is_a_positive_number(penalty):
    with pytest.raises(UserError, match="penalty"):
        read_settings(SoftMasked, {"penalty": penalty})


def test_what_is_broken_is_declared_twice_or_not_at_all():
    with pytest.raises(TypeError, match="says what is broken, and Half is no BrokenKind: derive"):

        @kind("half-broken", cost="n²", broken="it leaks", fails=("forbidden-keys",))
        class Half(AttentionKind):
            """Says that it is broken, and could be trained all the same."""

    with pytest.raises(TypeError, match="Silent is a BrokenKind, and kind 'silent' does not say"):

        @kind("silent", cost="n²")
        class Silent(BrokenKind):
            """Wrong on purpose, and nobody says in what."""

    assert not {"half-broken", "silent"} & set(ATTENTION.names())
