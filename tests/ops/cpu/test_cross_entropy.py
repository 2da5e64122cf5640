"""A loss by the kernel equals its definition in any shape; what it cannot hold is done again."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.models.loss import token_term
from regard.ops.cpu import cross_entropy as kernel
from regard.ops.cpu import library
from regard.ops.cross_entropy import reference_losses


def drawn(positions, width, vocabulary, *, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(positions, width, generator=generator)
    table = torch.randn(vocabulary, width, generator=generator) / width**0.5
    targets = torch.randint(0, vocabulary, (positions,), generator=generator)
    return (
        x.requires_grad_(),
        table.requires_grad_(),
        targets,
        torch.rand(positions, generator=generator),
    )


def apart(found, wanted):
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def loss_and_gradients(x, table, targets, weights, smoothing=0.0):
    total = token_term(x, table, targets=targets, weights=weights, smoothing=smoothing).sum
    return [total.detach(), *torch.autograd.grad(total, (x, table))]


def defined(x, table, targets, weights, smoothing=0.0):
    x, table = (one.detach().double().requires_grad_() for one in (x, table))
    total = (reference_losses(x, table, targets, smoothing=smoothing) * weights.double()).sum()
    return [total.detach(), *torch.autograd.grad(total, (x, table))]


@settings(max_examples=25, deadline=None)
@given(
    positions=st.integers(32, 300),
    vectors=st.integers(1, 7),
    vocabulary=st.integers(2, 120),
    smoothing=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 99),
)
def test_it_equals_the_definition(positions, vectors, vocabulary, smoothing, seed):
    given = drawn(positions, vectors * library.LIBRARY.lanes, vocabulary, seed=seed)
    assert kernel.supports(given[0], given[1])
    found, wanted = loss_and_gradients(*given, smoothing), defined(*given, smoothing)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() <= 1e-5 * max(other.abs().max().item(), 1.0)


def test_many_tokens_and_several_chunks():
    given = drawn(500, 48, 9_000)
    for found, wanted in zip(loss_and_gradients(*given), defined(*given), strict=True):
        assert apart(found, wanted) < 1e-5


def test_sums_that_a_float_cannot_hold_are_made_again_by_others():
    given = drawn(64, 16, 50, scale=200.0)
    mass = kernel.logits_pass(
        given[0].detach(), given[1].detach(), in_twos=given[0].detach(), weights=given[3]
    ).mass
    assert mass.max() > 1e20
    for found, wanted in zip(loss_and_gradients(*given), defined(*given), strict=True):
        assert apart(found, wanted) < 1e-5


def test_what_is_no_number_stays_none():
    x, table, targets, weights = drawn(40, 16, 30)
    broken = x.detach().clone()
    broken[7, 3] = torch.nan
    assert token_term(broken, table, targets=targets, weights=weights).sum.isnan()


@pytest.mark.parametrize("wanted", ["x", "table"])
def test_only_what_is_asked_for_is_found(wanted):
    x, table, _, weights = (one.detach() for one in drawn(70, 48, 100))
    asked = {"wants_x": wanted == "x", "wants_table": wanted == "table"}
    part = kernel.logits_pass(x, table, in_twos=x, weights=weights, **asked)
    whole = kernel.logits_pass(x, table, in_twos=x, weights=weights)
    assert torch.equal(part.mass, whole.mass)
    assert (part.d_x is None, part.d_table is None) == (wanted != "x", wanted != "table")
    one = "d_x" if wanted == "x" else "d_table"
    assert torch.equal(getattr(part, one), getattr(whole, one))


def test_bits_do_not_depend_on_threads():
    given, threads = drawn(111, 32, 110_000), torch.get_num_threads()
    try:
        found = []
        for count in (1, 3, 20):
            torch.set_num_threads(count)
            found.append(loss_and_gradients(*given)[1:])
    finally:
        torch.set_num_threads(threads)
    assert all(
        torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)
    )


def test_other_shapes_and_types_are_left_to_torch():
    assert not kernel.supports(torch.randn(40, 12), torch.randn(9, 12))
    assert not kernel.supports(torch.randn(5, 16), torch.randn(9, 16))
    assert not kernel.supports(torch.randn(40, 16), torch.randn(9, 8))
    assert not library.supports(torch.randn(3, dtype=torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not library.supports(torch.randn(3))
