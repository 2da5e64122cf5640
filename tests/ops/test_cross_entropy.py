"""The chunked loss equals its definition, values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.models.loss import token_loss_term
from regard.ops import cross_entropy
from regard.ops.cross_entropy import reference_losses, token_losses


def random_inputs(seed: int, positions: int, *, width: int = 5, vocabulary: int = 11):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(positions, width, generator=generator, dtype=torch.float64)
    table = torch.randn(vocabulary, width, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, vocabulary, (positions,), generator=generator)
    weights = torch.rand(positions, generator=generator, dtype=torch.float64)
    weights[weights < 0.3] = 0.0
    return x.requires_grad_(), table.requires_grad_(), targets, weights


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(cross_entropy, "chunk_rows", lambda vocabulary: 4)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    positions=st.integers(1, 13),
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_chunked_loss_equals_reference(seed, positions, smoothing):
    x, table, targets, weights = random_inputs(seed, positions)
    reference = (reference_losses(x, table, targets, smoothing=smoothing) * weights).sum()
    expected_gradients = torch.autograd.grad(3 * reference, (x, table))
    term = token_loss_term(x, table, targets=targets, weights=weights, smoothing=smoothing)
    assert torch.allclose(term.sum, reference, atol=1e-12)
    assert torch.equal(term.weight, weights.sum())
    gradients = torch.autograd.grad(3 * term.sum, (x, table))
    for gradient, expected in zip(gradients, expected_gradients, strict=True):
        assert torch.allclose(gradient, expected, atol=1e-12)
    losses = token_losses(x, table, targets=targets)
    assert torch.allclose(losses, reference_losses(x, table, targets), atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradcheck(smoothing):
    x, table, targets, weights = random_inputs(1, 9)

    def total(x, table):
        return token_loss_term(x, table, targets=targets, weights=weights, smoothing=smoothing).sum

    assert torch.autograd.gradcheck(total, (x, table))


def test_label_smoothing_spreads_a_fraction_over_the_vocabulary():
    """−Σ_v q_v log p_v with q = 1 − ε + ε/v at the target and ε/v elsewhere, written out."""
    x, table, targets, weights = random_inputs(3, 7)
    smoothed = torch.full((7, len(table)), 0.3 / len(table), dtype=torch.float64)
    smoothed[torch.arange(7), targets] += 0.7
    expected = -(smoothed * (x @ table.T).log_softmax(dim=-1)).sum(dim=1) @ weights
    term = token_loss_term(x, table, targets=targets, weights=weights, smoothing=0.3)
    assert torch.allclose(term.sum, expected, atol=1e-12)


def test_zero_weights_give_zero_loss_and_gradient():
    x, table, targets, _ = random_inputs(4, 3)
    term = token_loss_term(x, table, targets=targets, weights=torch.zeros(3, dtype=torch.float64))
    term.sum.backward()
    assert term.sum.item() == term.weight.item() == 0
    assert not x.grad.any()


def test_tied_table_gets_gradients_of_input_and_output():
    _, table, targets, weights = random_inputs(2, 6)
    ids = torch.tensor([1, 2, 3, 4, 5, 1])
    reference = (reference_losses(table[ids], table, targets) * weights).sum()
    [expected] = torch.autograd.grad(reference, table)
    term = token_loss_term(table[ids], table, targets=targets, weights=weights)
    [gradient] = torch.autograd.grad(term.sum, table)
    assert torch.allclose(gradient, expected, atol=1e-12)


def test_extreme_logits_stay_finite():
    x = torch.tensor([[1e4, -1e4]], requires_grad=True)
    table = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    term = token_loss_term(x, table, targets=torch.tensor([1]), weights=torch.ones(1))
    assert term.sum.item() == 2e4
    term.sum.backward()
    assert torch.isfinite(x.grad).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), offset=st.floats(-300, 300), dtype=st.sampled_from(["32", "64"]))
def test_logits_with_a_large_common_offset_keep_their_precision(seed, offset, dtype):
    """exp(logits) would be 0 or infinite for some of these."""
    dtype = getattr(torch, f"float{dtype}")
    x, table, targets, weights = (
        tensor.detach().to(dtype) if tensor.is_floating_point() else tensor
        for tensor in random_inputs(seed, 9)
    )
    x[::2, 0] = 1.0  # rows of one chunk have different offsets
    table[:, 0] = offset
    results = []
    for total in (
        lambda x, table: token_loss_term(x, table, targets=targets, weights=weights).sum,
        lambda x, table: (reference_losses(x, table, targets) * weights).sum(),
    ):
        inputs = (x.clone().requires_grad_(), table.clone().requires_grad_())
        loss = total(*inputs)
        results.append((loss, *torch.autograd.grad(loss, inputs)))
    for actual, expected in zip(*results, strict=True):
        tolerance = 1e-12 if dtype == torch.float64 else 2e-4
        assert torch.allclose(actual, expected, rtol=tolerance, atol=tolerance)
