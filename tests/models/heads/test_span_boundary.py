"""The span boundary network: its inputs, its loss term, its parameter count."""

import numpy as np
import pytest
import torch

from regard.batch import Example, collate
from regard.core.errors import UserError
from regard.core.ledger import total_parameters
from regard.models.families.encoder import Encoder
from regard.models.heads.span_boundary import (
    MAX_SPAN_POSITIONS,
    SpanBoundary,
    span_boundary_parameters,
)
from regard.models.inputs import ModelInputs
from regard.ops.cross_entropy import reference_losses

ROWS = (
    # positions 2 and 3 are a span between 1 and 4; the second row masks no span with two boundaries
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
    assert sum(p.numel() for p in built.parameters()) == total_parameters(
        family.count_parameters(40)
    )
    return built


def test_parameter_count_equals_the_formula():
    for width in (4, 12):
        network = SpanBoundary(width)
        count = sum(p.numel() for p in network.parameters())
        assert count == span_boundary_parameters(width).value


def test_loss_term_predicts_masked_tokens_from_their_span_boundaries():
    encoder = model(boundary=True)
    terms = encoder(batch())
    x = encoder.hidden_states(ModelInputs.of_batch(batch()))[0]
    y = encoder.boundary(x[[1, 1]], x[[4, 4]], torch.tensor([0, 1]))
    table = encoder.head.tokens.weight
    assert torch.allclose(
        terms["boundary"].sum, reference_losses(y, table, torch.tensor([9, 10])).sum()
    )
    assert float(terms["boundary"].weight) == 2
    assert float(terms["token"].weight) == 3
    sum(term.sum for term in terms.values()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.boundary.parameters())


def test_other_parameters_and_logits_are_unchanged():
    plain, with_boundary = model(), model(boundary=True)
    shared = dict(with_boundary.named_parameters())
    assert all(torch.equal(value, shared[name]) for name, value in plain.named_parameters())
    ids = batch().ids
    assert torch.equal(plain.logits(ModelInputs(ids)), with_boundary.logits(ModelInputs(ids)))


def test_positions_beyond_the_last_share_its_embedding():
    network = SpanBoundary(4)
    boundary = torch.randn(2, 4)
    last = network(boundary, boundary, torch.tensor([MAX_SPAN_POSITIONS - 1] * 2))
    assert torch.equal(last, network(boundary, boundary, torch.tensor([99, 400])))


def test_a_batch_without_spans_has_no_boundary_loss():
    alone = collate(
        [Example(ROWS[1].inputs, ROWS[1].targets, ROWS[1].weights, labels=LABELS[1])],
        pad_id=0,
        rows=(0,),
    )
    assert float(model(boundary=True)(alone)["boundary"].sum.detach()) == 0


def test_span_labels_without_a_boundary_network_are_refused():
    with pytest.raises(UserError, match=r"Set model\.boundary = true"):
        model()(batch())
