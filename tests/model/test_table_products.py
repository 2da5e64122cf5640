"""Both ways to the three products of an output layer give the same, as does a loss by either."""

import pytest
import torch

from regard.attention import onednn
from regard.model import loss as losses
from regard.model.loss import plain_losses, token_term
from regard.model.table_products import ByOneDnn, ByTorch, table_products

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this torch was built without oneDNN"
)


def close(found, wanted):
    return bool((found - wanted).detach().abs().max() <= 1e-5 * wanted.detach().abs().max())


@pytest.mark.parametrize("by", [ByTorch, ByOneDnn])
def test_they_are_what_they_say(by):
    table, x = torch.randn(31, 6), torch.randn(8, 6)
    products = by(table, rows=3)
    assert not products.gathered().any()
    gathered = torch.zeros_like(table)
    for chunk in x.split(3):
        scores = products.scores(chunk)
        assert close(scores, chunk @ table.T)
        assert close(products.mixed(scores), chunk @ table.T @ table)
        products.gather(scores, chunk)
        gathered += (chunk @ table.T).T @ chunk
    assert close(products.gathered(), gathered)


@pytest.mark.parametrize("pays", [True, False])
@pytest.mark.parametrize("scale", [1.0, 60.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_loss_by_either_equals_the_definition(pays, scale, smoothing, monkeypatch):
    """With large scores too, where the sums leave the middle of a float."""
    monkeypatch.setattr(onednn, "PAYS", pays)
    monkeypatch.setattr(losses, "rows_at_once", lambda vocabulary: 4)
    torch.manual_seed(1)
    x, table = torch.randn(9, 5) * scale, torch.randn(23, 5)
    targets, weights = torch.randint(0, 23, (9,)), torch.rand(9)
    assert isinstance(table_products(x, table, rows=4), ByOneDnn if pays else ByTorch)
    for tensor in (x, table):
        tensor.requires_grad_()
    term = token_term(x, table, targets=targets, weights=weights, smoothing=smoothing)
    plain = (plain_losses(x, table, targets, smoothing=smoothing) * weights).sum()
    found, wanted = (torch.autograd.grad(one, (x, table)) for one in (term.sum, plain))
    assert close(term.sum, plain)
    assert all(close(a, b) for a, b in zip(found, wanted, strict=True))


def test_nothing_that_counts_is_no_loss(monkeypatch):
    monkeypatch.setattr(onednn, "PAYS", True)
    x, table = torch.randn(3, 5, requires_grad=True), torch.randn(11, 5, requires_grad=True)
    term = token_term(x, table, targets=torch.zeros(3, dtype=torch.long), weights=torch.zeros(3))
    term.sum.backward()
    assert term.sum.item() == 0
    assert not x.grad.any()
    assert not table.grad.any()
