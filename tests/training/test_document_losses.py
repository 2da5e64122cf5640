"""Document losses: every scored token counts once, and windows equal a single forward pass."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.batch import Example, collate
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.model import token_losses, weighted_losses
from regard.objectives import Vocabulary
from regard.objectives.causal import Causal
from regard.objectives.masked import Masked
from regard.training.document_losses import document_losses

VOCABULARY = Vocabulary(size=50, start=2, stop=3, mask=6, specials=frozenset({0, 2, 3, 4, 5, 6}))


@given(length=st.integers(1, 60), context=st.integers(1, 20))
def test_windows_score_each_target_once_given_half_a_context(length, context):
    ids = np.arange(10, 10 + length)
    rows = Causal().evaluation_examples(
        ids, np.random.default_rng(0), context=context, vocabulary=VOCABULARY
    )
    wrapped = np.concatenate(([2], ids, [3]))
    scored = []
    for row, token_indices in rows:
        assert len(row.inputs) <= context
        weighted = np.flatnonzero(row.weights)
        assert np.array_equal(row.targets[weighted], wrapped[1:][token_indices])
        scored += token_indices.tolist()
        if row.inputs[0] != 2:
            assert weighted[0] >= context - max(1, context // 2)
    assert scored == list(range(length + 1))
    positions = sum(len(row.example.inputs) for row in rows)
    assert positions == Causal().evaluation_positions(np.array([length]), context=context)


def test_document_losses_equal_summed_model_losses():
    model = Decoder(layers=1, heads=2, width=8, context=16).build(vocabulary=50, seed=0).eval()
    documents = [np.array([15, 16, 17]), np.array([9]), np.arange(10, 25)]
    result = document_losses(model, documents, Causal(), vocabulary=VOCABULARY, pad=0)
    assert result.tokens.tolist() == [4, 2, 16]
    assert all(scored.all() for scored in result.is_scored)
    for document, loss in zip(documents, result.losses, strict=True):
        ids = np.concatenate(([2], document, [3]))
        example = Example(ids[:-1], ids[1:], np.ones(len(ids) - 1, dtype=np.float32), None)
        with torch.no_grad():
            expected = token_losses(model, collate([example], pad_id=0, rows=(0,))).sum()
        assert abs(float(expected) - loss) < 1e-4


def test_long_document_is_scored_in_windows():
    model = Decoder(layers=1, heads=2, width=8, context=4).build(vocabulary=50, seed=0).eval()
    result = document_losses(model, [np.arange(5, 45)], Causal(), vocabulary=VOCABULARY, pad=0)
    assert result.tokens.tolist() == [41]


def test_masked_tokens_follow_from_the_seed_and_are_reported():
    model = Encoder(layers=1, heads=2, width=8, context=16).build(vocabulary=50, seed=0).eval()
    documents = [np.arange(10, 40), np.arange(10, 50)]

    def score(seed):
        return document_losses(
            model, documents, Masked(masking_rate=0.5), vocabulary=VOCABULARY, pad=0, seed=seed
        )

    first, again, other = score(0), score(0), score(1)
    assert np.array_equal(first.losses, again.losses)
    assert not np.array_equal(first.losses, other.losses)
    assert first.tokens.tolist() == [int(scored.sum()) for scored in first.is_scored]
    assert all(10 <= n <= 21 for n in first.tokens)
    assert not first.is_scored[0][-1]  # <stop> is never masked


@pytest.mark.parametrize("family", [Decoder, Encoder])
def test_positions_without_weight_take_no_logits_and_change_no_loss(family):
    model = family(layers=1, heads=2, width=8, context=16).build(vocabulary=50, seed=0).eval()
    generator = np.random.default_rng(0)
    ids = generator.integers(7, 50, size=(5, 16))
    weights = (generator.random((5, 16)) < 0.4).astype(np.float32)
    weights[3] = 0.0
    examples = [Example(row, row, own, None) for row, own in zip(ids, weights, strict=True)]
    batch = collate(examples, pad_id=0, rows=tuple(range(5)))
    with torch.inference_mode():
        expected = token_losses(model, batch).double() * batch.weights
        assert torch.allclose(weighted_losses(model, batch), expected, rtol=1e-6)
        nothing = replace(batch, weights=torch.zeros_like(batch.weights))
        assert not weighted_losses(model, nothing).any()
