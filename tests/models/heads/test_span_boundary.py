"""The boundary network: what it sees, what it has to tell, and how many parameters it has."""

import numpy as np
import pytest
import torch

from regard.batch import Example, collate
from regard.core.count import total
from regard.core.errors import UserError
from regard.models.families.encoder import Encoder
from regard.models.heads.span_boundary import PLACES, SpanBoundary, boundary_term
from regard.ops.cross_entropy import reference_losses

ROWS = (
    # places 2 and 3 are a span between 1 and 4; the second row hides nothing that has two ends
    Example(np.arange(7, 14), np.arange(7, 14), np.float32([0, 0, 1, 1, 0, 0, 0])),
    Example(np.arange(20, 25), np.arange(20, 25), np.float32([1, 0, 0, 0, 0])),
)
LABELS = (np.array([2, 1, 4, 3, 1, 4]), np.array([], dtype=np.int64))


def batch():
    rows = [
        Example(row.inputs, row.targets, row.weights, labels=labels)
        for row, labels in zip(ROWS, LABELS, strict=True)
    ]
    return collate(rows, pad_id=0, rows=(0, 1))


def model(**settings):
    family = Encoder(context=8, width=8, heads=2, layers=1, **settings)
    built = family.build(vocabulary=40, seed=0).double()
    assert sum(p.numel() for p in built.parameters()) == total(family.count(40))
    return built


def test_it_has_as_many_parameters_as_its_formula():
    for width in (4, 12):
        made = SpanBoundary(width)
        assert sum(p.numel() for p in made.parameters()) == boundary_term(width).value


def test_the_term_is_the_loss_of_each_hidden_token_from_the_ends_of_its_span():
    encoder = model(boundary=True)
    terms = encoder(batch())
    x = encoder.read(batch())[0]
    y = encoder.boundary(x[[1, 1]], x[[4, 4]], torch.tensor([0, 1]))
    table = encoder.head.tokens.weight
    assert torch.allclose(
        terms["boundary"].sum, reference_losses(y, table, torch.tensor([9, 10])).sum()
    )
    assert float(terms["boundary"].weight) == 2
    assert float(terms["token"].weight) == 3
    sum(term.sum for term in terms.values()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.boundary.parameters())


def test_the_network_changes_nothing_else():
    plain, wider = model(), model(boundary=True)
    shared = dict(wider.named_parameters())
    assert all(torch.equal(value, shared[name]) for name, value in plain.named_parameters())
    ids = batch().ids
    assert torch.equal(plain.logits(ids), wider.logits(ids))


def test_places_beyond_the_last_share_its_vector():
    made = SpanBoundary(4)
    ends = torch.randn(2, 4)
    assert torch.equal(
        made(ends, ends, torch.tensor([PLACES - 1] * 2)), made(ends, ends, torch.tensor([99, 400]))
    )


def test_a_batch_without_two_ends_has_no_boundary_loss():
    alone = collate(
        [Example(ROWS[1].inputs, ROWS[1].targets, ROWS[1].weights, labels=LABELS[1])],
        pad_id=0,
        rows=(0,),
    )
    assert float(model(boundary=True)(alone)["boundary"].sum.detach()) == 0


def test_labels_without_the_network_are_refused():
    with pytest.raises(UserError, match=r"Set model\.boundary = true"):
        model()(batch())
