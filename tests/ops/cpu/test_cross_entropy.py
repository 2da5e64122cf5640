"""The cross-entropy kernel equals the definition for any shape, and falls back on overflow."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.models.loss import token_loss_term
from regard.ops.cpu import library
from regard.ops.cross_entropy import kernel_pass, reference_losses, supports


def random_inputs(positions, width, vocabulary, *, scale=1.0, seed=0):
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


def relative_error(actual, expected):
    return ((actual - expected).abs().max() / expected.abs().max()).item()


def loss_and_gradients(x, table, targets, weights, smoothing=0.0):
    total = token_loss_term(x, table, targets=targets, weights=weights, smoothing=smoothing).sum
    return [total.detach(), *torch.autograd.grad(total, (x, table))]


def reference(x, table, targets, weights, smoothing=0.0):
    x, table = (tensor.detach().double().requires_grad_() for tensor in (x, table))
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
def test_kernel_equals_reference(positions, vectors, vocabulary, smoothing, seed):
    inputs = random_inputs(positions, vectors * library.LIBRARY.lanes, vocabulary, seed=seed)
    assert supports(inputs[0], inputs[1], inputs[3])
    results = loss_and_gradients(*inputs, smoothing), reference(*inputs, smoothing)
    for actual, expected in zip(*results, strict=True):
        assert (actual - expected).abs().max() <= 1e-5 * max(expected.abs().max().item(), 1.0)


def test_large_vocabulary_and_several_chunks():
    inputs = random_inputs(500, 48, 9_000)
    for actual, expected in zip(loss_and_gradients(*inputs), reference(*inputs), strict=True):
        assert relative_error(actual, expected) < 1e-5


def test_overflowing_denominators_fall_back_to_chunks():
    x, table, targets, weights = random_inputs(64, 16, 50, scale=200.0)
    assert supports(x, table, weights)
    assert kernel_pass(x.detach(), table.detach(), weights, (True, True)) is None
    results = (f(x, table, targets, weights) for f in (loss_and_gradients, reference))
    for actual, expected in zip(*results, strict=True):
        assert relative_error(actual, expected) < 1e-5


def test_nan_propagates_to_the_loss():
    x, table, targets, weights = random_inputs(40, 16, 30)
    broken = x.detach().clone()
    broken[7, 3] = torch.nan
    assert token_loss_term(broken, table, targets=targets, weights=weights).sum.isnan()


@pytest.mark.parametrize("needed", ["x", "table"])
def test_only_needed_gradients_are_computed(needed):
    x, table, _, weights = (tensor.detach() for tensor in random_inputs(70, 48, 100))
    needs = (needed == "x", needed == "table")
    partial = kernel_pass(x, table, weights, needs)
    full = kernel_pass(x, table, weights, (True, True))
    assert torch.equal(partial.lse, full.lse)
    assert (partial.d_x is not None, partial.d_table is not None) == needs
    name = "d_x" if needed == "x" else "d_table"
    assert torch.equal(getattr(partial, name), getattr(full, name))


def test_bits_are_independent_of_the_thread_count():
    inputs, threads = random_inputs(111, 32, 110_000), torch.get_num_threads()
    try:
        gradients = []
        for count in (1, 3, 20):
            torch.set_num_threads(count)
            gradients.append(loss_and_gradients(*inputs)[1:])
    finally:
        torch.set_num_threads(threads)
    assert all(
        torch.equal(a, b)
        for others in gradients[1:]
        for a, b in zip(gradients[0], others, strict=True)
    )


@pytest.fixture
def by_shape():
    """A test with it has the rule that says where the kernel is faster."""


@pytest.mark.parametrize("vocabulary", [511, 512])
def test_small_vocabularies_are_left_to_torch(by_shape, vocabulary):
    chosen = supports(torch.randn(40, 16), torch.randn(vocabulary, 16), torch.ones(40))
    assert chosen == (vocabulary == 512)


def test_unsupported_shapes_and_dtypes_are_left_to_torch():
    assert not supports(torch.randn(40, 12), torch.randn(9, 12), torch.ones(40))
    assert not supports(torch.randn(5, 16), torch.randn(9, 16), torch.ones(5))
    assert not supports(torch.randn(40, 16), torch.randn(9, 8), torch.ones(40))
    assert not supports(torch.randn(40, 16), torch.randn(9, 16), torch.ones(39))
    assert not library.supports(torch.randn(3, dtype=torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not library.supports(torch.randn(3))
