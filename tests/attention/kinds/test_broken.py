"""Kinds that are broken on purpose: weights by hand, and how they leak."""

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
    """The largest gradient of the first query's output with respect to a masked key or value."""
    q, k, v = draw(0), draw(1), draw(2)
    out = attend(q, k, v, masks.causal(), kind.build(SHAPE)).out[0, 0, 0].square().sum()
    dk, dv = torch.autograd.grad(out, (k, v), materialize_grads=True)
    return float(torch.stack((dk, dv))[..., 1:, :].abs().max())


def test_zero_masked_masks_after_the_softmax():
    # Three keys with scores log 1, log 2, log 5; the third is masked.
    function = ZeroMasked().build(SHAPE)
    scores = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()
    weights = function.normalise(scores, torch.tensor([True, True, False]))
    assert weights.tolist() == pytest.approx([1 / 8, 2 / 8, 0])  # not 1/3, 2/3, 0


def test_soft_masked_subtracts_a_finite_penalty():
    function = SoftMasked(penalty=math.log(10)).build(SHAPE)
    scores = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()
    weights = function.normalise(scores, torch.tensor([True, True, False]))
    assert weights.tolist() == pytest.approx([1 / 3.5, 2 / 3.5, 0.5 / 3.5])
    assert SoftMasked().penalty == 9.0


def test_broken_kinds_leak_the_future():
    assert leak(Dot()) == 0.0
    assert leak(ZeroMasked()) > 1e-3
    assert leak(SoftMasked()) > 1e-6
    assert leak(SoftMasked(penalty=9.0)) > 10 * leak(SoftMasked(penalty=12.0)) > 0.0


def test_zero_masked_leaks_through_keys_alone():
    q, k, v = draw(0), draw(1), draw(2)
    out = attend(q, k, v, masks.causal(), ZeroMasked().build(SHAPE)).out[0, 0, 0].sum()
    dk, dv = torch.autograd.grad(out, (k, v))
    assert (dk[0, 0, 1:].abs().sum(dim=-1) > 0).all()
    assert torch.equal(dv[0, 0, 1:], torch.zeros(4, 4).double())


def test_a_very_large_penalty_only_affects_fully_masked_rows():
    kind = SoftMasked(penalty=1e9)
    assert leak(kind) == 0.0
    q, k, v = draw(0), draw(1), draw(2)
    expected = attend(q, k, v, masks.causal(), DotProduct()).out
    assert torch.allclose(attend(q, k, v, masks.causal(), kind.build(SHAPE)).out, expected)
    out = attend(q, k, v, NOTHING, kind.build(SHAPE)).out
    assert (out.abs().sum(dim=-1) > 0).all()
    in_float32 = attend(*(x.float() for x in (q, k, v)), NOTHING, kind.build(SHAPE)).out
    average = v.float().mean(dim=2, keepdim=True).expand_as(v)  # all keys get the penalty
    assert torch.allclose(in_float32, average, atol=1e-6)


def test_a_fully_masked_row_of_zero_masked_is_zeros():
    out = attend(draw(0), draw(1), draw(2), NOTHING, ZeroMasked().build(SHAPE)).out
    assert torch.equal(out, torch.zeros_like(out))


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: type(kind).__name__)
def test_broken_kinds_take_the_explicit_path(kind):
    # In stripes or blocks masked keys would be left out, and with them the fault.
    x = draw(0, positions=200)
    for mask in (masks.sliding_window(3), masks.same_block(5)):
        attended = attend(x, x, x, mask, kind.build(SHAPE))
        assert attended.path == "explicit"
        assert not torch.allclose(attended.out, attend(x, x, x, mask).out, atol=1e-9)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: type(kind).__name__)
def test_cached_decoding_differs_from_one_pass(kind):
    torch.manual_seed(0)
    mixer = build_mixer(kind, HeadShape(width=4, heads=2)).double()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    one_pass = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(6)).out
    first = mixer(
        x[:, :1], mask=masks.causal(), positions=TokenPositions.of_row(1), cache=mixer.new_cache(6)
    )
    assert not torch.allclose(first.out, one_pass[:, :1], atol=1e-9)


def test_the_catalogue_says_what_is_broken():
    broken = {entry.name: entry.properties["broken"] for entry in ATTENTION}
    for name in ("zero-masked", "soft-masked"):
        assert broken[name]
        assert "Broken on purpose" in ATTENTION.get(name).summary
    assert ZeroMasked.traits.fails == ("forbidden-keys", "padding", "cache")
    assert SoftMasked.traits.fails == ("empty-rows", "forbidden-keys", "padding", "cache")


@pytest.mark.parametrize("penalty", [0.0, -1.0, math.inf, math.nan])
def test_a_penalty_must_be_positive(penalty):
    with pytest.raises(UserError, match="penalty"):
        read_settings(SoftMasked, {"penalty": penalty})


def test_broken_needs_both_a_base_class_and_a_description():
    with pytest.raises(TypeError, match="Half is no BrokenKind"):

        @kind("half-broken", cost="n²", broken="it leaks", fails=("forbidden-keys",))
        class Half(AttentionKind):
            """Declares what is broken, without the base class."""

    with pytest.raises(TypeError, match=r"Silent is a BrokenKind.*'silent'"):

        @kind("silent", cost="n²")
        class Silent(BrokenKind):
            """Has the base class, without saying what is broken."""

    assert not {"half-broken", "silent"} & set(ATTENTION.names())
