"""Evaluation counts every token once, and equals one plain look where the document fits."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.model.families.decoder import Decoder
from regard.text.batches import Example, collate
from regard.training.evaluation import document_losses, places_in_windows, windows


@given(length=st.integers(1, 60), context=st.integers(1, 20))
def test_windows_score_each_target_once_with_half_a_context_behind(length, context):
    ids = np.arange(length + 1)
    scored = []
    for row in windows(ids, context=context):
        assert len(row.inputs) <= context
        assert np.array_equal(row.targets, row.inputs + 1)
        places = np.flatnonzero(row.weights)
        scored += row.targets[places].tolist()
        if row.inputs[0] > 0:
            assert places[0] >= context - max(1, context // 2)
    assert scored == list(range(1, length + 1))
    places = sum(len(row.inputs) for row in windows(ids, context=context))
    assert places == places_in_windows(np.array([length - 1]), context=context)


def test_document_losses_equal_a_plain_sum():
    model = Decoder(layers=1, heads=2, width=8, context=16).build(vocabulary=50, seed=0).eval()
    documents = [np.array([5, 6, 7]), np.array([9]), np.arange(10, 25)]
    losses, tokens = document_losses(model, documents, start=2, stop=3, pad=0)
    assert tokens.tolist() == [4, 2, 16]
    for document, loss in zip(documents, losses, strict=True):
        ids = np.concatenate(([2], document, [3]))
        example = Example(ids[:-1], ids[1:], np.ones(len(ids) - 1, dtype=np.float32), None)
        with torch.no_grad():
            plain = model.losses(collate([example], pad_id=0, rows=(0,))).sum()
        assert abs(float(plain) - loss) < 1e-4


def test_a_long_document_is_read_in_windows():
    model = Decoder(layers=1, heads=2, width=8, context=4).build(vocabulary=50, seed=0).eval()
    _, tokens = document_losses(model, [np.arange(5, 45)], start=2, stop=3, pad=0)
    assert tokens.tolist() == [41]
