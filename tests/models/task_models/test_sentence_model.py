"""Sentence embeddings: losses against plain loops, in-batch negatives, padding."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.batch import Example, collate
from regard.models.families.encoder import Encoder
from regard.models.heads.task_heads import SentenceHead
from regard.models.task_models.sentence_model import (
    ContrastiveModel,
    SimilarityModel,
    contrastive_losses,
    cosines,
)


def example(first, second, labels):
    ids = np.asarray(first)
    weights = np.zeros(len(ids), dtype=np.float32)
    weights[0] = 1
    return Example(ids, ids, weights, source=np.asarray(second), labels=np.asarray(labels))


def body():
    return Encoder(layers=1, heads=2, width=16, context=12).build(vocabulary=20, seed=0)


def reference_losses(scores, labels):
    """One row and one column at a time, without the rows that share a text."""
    losses = []
    for i in range(len(scores)):
        others = [
            j
            for j in range(len(scores))
            if j == i or (labels[j][0] != labels[i][0] and labels[j][1] != labels[i][1])
        ]
        across = scores[i, i] - np.logaddexp.reduce([scores[i, j] for j in others])
        down = scores[i, i] - np.logaddexp.reduce([scores[j, i] for j in others])
        losses.append(-(across + down) / 2)
    return losses


@given(st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_contrastive_losses_equal_a_plain_loop(rows, seed):
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(rows, rows)) * 5
    labels = generator.integers(0, 3, size=(rows, 2))
    losses = contrastive_losses(torch.tensor(scores), torch.tensor(labels))
    assert losses.numpy() == pytest.approx(reference_losses(scores, labels), abs=1e-9)


def test_contrastive_losses_pass_gradcheck():
    scores = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[0, 0], [1, 1], [1, 2], [3, 3]])
    assert torch.autograd.gradcheck(lambda s: contrastive_losses(s, labels).sum(), scores)


def test_a_single_pair_has_no_contrastive_loss():
    assert contrastive_losses(torch.randn(1, 1), torch.tensor([[5, 6]])).item() == 0


def test_embeddings_do_not_depend_on_the_batch():
    model = ContrastiveModel(body(), SentenceHead(), temperature=0.1, seed=0).eval()
    rows = [
        example([2, 5, 3], [2, 7, 8, 9, 3], [0, 0]),
        example([2, 6, 7, 8, 9, 3], [2, 3], [1, 1]),
    ]
    alone = [collate([row], pad_id=0, rows=[0]) for row in rows]
    first, second = model.encode_pairs(collate(rows, pad_id=0, rows=[0, 1]))
    for number, batch in enumerate(alone):
        for side, batched in zip(model.encode_pairs(batch), (first, second), strict=True):
            assert torch.allclose(side[0], batched[number], atol=1e-6)
    assert torch.allclose(first.norm(dim=1), torch.ones(2), atol=1e-6)


def test_similarity_loss_is_the_squared_error_of_the_cosine():
    model = SimilarityModel(body(), SentenceHead(), seed=0).eval()
    rows = [example([2, 5, 3], [2, 7, 3], [0.25]), example([2, 6, 3], [2, 6, 3], [1.0])]
    batch = collate(rows, pad_id=0, rows=[0, 1])
    found = cosines(*model.encode_pairs(batch))
    term = model(batch)["similarity"]
    assert found[1].item() == pytest.approx(1, abs=1e-6)  # the same text twice
    assert term.sum.item() == pytest.approx((found[0].item() - 0.25) ** 2, abs=1e-6)
    assert term.weight.item() == 2
