"""Evaluation tells every token its objective asks for, once, and equals one plain look."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.batch import Example, collate
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.objectives import Vocabulary
from regard.objectives.causal import Causal
from regard.objectives.masked import Masked
from regard.training.document_losses import document_losses

VOCABULARY = Vocabulary(size=50, start=2, stop=3, mask=6, specials=frozenset({0, 2, 3, 4, 5, 6}))


@given(length=st.integers(1, 60), context=st.integers(1, 20))
def test_windows_tell_each_target_once_with_half_a_context_behind(length, context):
    ids = np.arange(10, 10 + length)
    rows = Causal().scored(ids, np.random.default_rng(0), context=context, vocabulary=VOCABULARY)
    wrapped = np.concatenate(([2], ids, [3]))
    told = []
    for row, tells in rows:
        assert len(row.inputs) <= context
        places = np.flatnonzero(row.weights)
        assert np.array_equal(row.targets[places], wrapped[1:][tells])
        told += tells.tolist()
        if row.inputs[0] != 2:
            assert places[0] >= context - max(1, context // 2)
    assert told == list(range(length + 1))
    places = sum(len(row.example.inputs) for row in rows)
    assert places == Causal().places_scored(np.array([length]), context=context)


def test_document_losses_equal_a_plain_sum():
    model = Decoder(layers=1, heads=2, width=8, context=16).build(vocabulary=50, seed=0).eval()
    documents = [np.array([15, 16, 17]), np.array([9]), np.arange(10, 25)]
    told = document_losses(model, documents, Causal(), vocabulary=VOCABULARY, pad=0)
    assert told.tokens.tolist() == [4, 2, 16]
    assert all(counted.all() for counted in told.counted)
    for document, loss in zip(documents, told.losses, strict=True):
        ids = np.concatenate(([2], document, [3]))
        example = Example(ids[:-1], ids[1:], np.ones(len(ids) - 1, dtype=np.float32), None)
        with torch.no_grad():
            plain = model.losses(collate([example], pad_id=0, rows=(0,))).sum()
        assert abs(float(plain) - loss) < 1e-4


def test_a_long_document_is_read_in_windows():
    model = Decoder(layers=1, heads=2, width=8, context=4).build(vocabulary=50, seed=0).eval()
    told = document_losses(model, [np.arange(5, 45)], Causal(), vocabulary=VOCABULARY, pad=0)
    assert told.tokens.tolist() == [41]


def test_what_is_hidden_follows_from_the_seed_and_is_counted():
    model = Encoder(layers=1, heads=2, width=8, context=16).build(vocabulary=50, seed=0).eval()
    documents = [np.arange(10, 40), np.arange(10, 50)]

    def told(seed):
        return document_losses(
            model, documents, Masked(share=0.5), vocabulary=VOCABULARY, pad=0, seed=seed
        )

    first, again, other = told(0), told(0), told(1)
    assert np.array_equal(first.losses, again.losses)
    assert not np.array_equal(first.losses, other.losses)
    assert first.tokens.tolist() == [int(counted.sum()) for counted in first.counted]
    assert all(10 <= n <= 21 for n in first.tokens)
    assert not first.counted[0][-1]  # the stop is never hidden
