"""The chunked loss equals its definition, values and gradients, and adds up over parts."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.models.loss import token_term
from regard.ops import cross_entropy as losses
from regard.ops.cross_entropy import reference_losses, token_losses


def drawn(seed: int, positions: int, *, width: int = 5, vocabulary: int = 11):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(positions, width, generator=generator, dtype=torch.float64)
    table = torch.randn(vocabulary, width, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, vocabulary, (positions,), generator=generator)
    weights = torch.rand(positions, generator=generator, dtype=torch.float64)
    weights[weights < 0.3] = 0.0
    return x.requires_grad_(), table.requires_grad_(), targets, weights


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(losses, "rows_at_once", lambda vocabulary: 4)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    positions=st.integers(1, 13),
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_chunks_equal_the_definition(seed, positions, smoothing):
    x, table, targets, weights = drawn(seed, positions)
    plain = (reference_losses(x, table, targets, smoothing=smoothing) * weights).sum()
    expected = torch.autograd.grad(3 * plain, (x, table))
    term = token_term(x, table, targets=targets, weights=weights, smoothing=smoothing)
    assert torch.allclose(term.sum, plain, atol=1e-12)
    assert torch.equal(term.weight, weights.sum())
    for found, wanted in zip(torch.autograd.grad(3 * term.sum, (x, table)), expected, strict=True):
        assert torch.allclose(found, wanted, atol=1e-12)
    each = token_losses(x, table, targets=targets)
    assert torch.allclose(each, reference_losses(x, table, targets), atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_backward_pass_is_right(smoothing):
    x, table, targets, weights = drawn(1, 9)

    def total(x, table):
        return token_term(x, table, targets=targets, weights=weights, smoothing=smoothing).sum

    assert torch.autograd.gradcheck(total, (x, table))


def test_smoothing_asks_for_a_share_of_every_token():
    """−Σ_v q_v log p_v with q = 1 − ε + ε/v at the target and ε/v elsewhere, written out."""
    x, table, targets, weights = drawn(3, 7)
    wanted = torch.full((7, len(table)), 0.3 / len(table), dtype=torch.float64)
    wanted[torch.arange(7), targets] += 0.7
    expected = -(wanted * (x @ table.T).log_softmax(dim=-1)).sum(dim=1) @ weights
    term = token_term(x, table, targets=targets, weights=weights, smoothing=0.3)
    assert torch.allclose(term.sum, expected, atol=1e-12)


def test_nothing_that_counts_is_no_loss():
    x, table, targets, _ = drawn(4, 3)
    term = token_term(x, table, targets=targets, weights=torch.zeros(3, dtype=torch.float64))
    term.sum.backward()
    assert term.sum.item() == term.weight.item() == 0
    assert not x.grad.any()


def test_a_tied_table_gets_both_its_gradients():
    _, table, targets, weights = drawn(2, 6)
    ids = torch.tensor([1, 2, 3, 4, 5, 1])
    plain = (reference_losses(table[ids], table, targets) * weights).sum()
    [expected] = torch.autograd.grad(plain, table)
    term = token_term(table[ids], table, targets=targets, weights=weights)
    [found] = torch.autograd.grad(term.sum, table)
    assert torch.allclose(found, expected, atol=1e-12)


def test_extreme_scores_stay_finite():
    x = torch.tensor([[1e4, -1e4]], requires_grad=True)
    table = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    term = token_term(x, table, targets=torch.tensor([1]), weights=torch.ones(1))
    assert term.sum.item() == 2e4
    term.sum.backward()
    assert torch.isfinite(x.grad).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), offset=st.floats(-300, 300), dtype=st.sampled_from(["32", "64"]))
def test_scores_that_are_all_large_or_all_small_lose_nothing(seed, offset, dtype):
    """exp(scores) would be 0 or infinite for some of these, and is not what counts."""
    dtype = getattr(torch, f"float{dtype}")
    x, table, targets, weights = (
        one.detach().to(dtype) if one.is_floating_point() else one for one in drawn(seed, 9)
    )
    x[::2, 0] = 1.0  # so that rows of one chunk differ in this as well
    table[:, 0] = offset
    answers = []
    for total in (
        lambda x, table: token_term(x, table, targets=targets, weights=weights).sum,
        lambda x, table: (reference_losses(x, table, targets) * weights).sum(),
    ):
        given = (x.clone().requires_grad_(), table.clone().requires_grad_())
        loss = total(*given)
        answers.append((loss, *torch.autograd.grad(loss, given)))
    for found, wanted in zip(*answers, strict=True):
        close = 1e-12 if dtype == torch.float64 else 2e-4
        assert torch.allclose(found, wanted, rtol=close, atol=close)
