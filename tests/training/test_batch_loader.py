"""The order of batches follows from seed and epoch; a cursor is enough to find one's place."""

from itertools import islice

import numpy as np
import pytest
from tests.training.tiny import stream

from regard.training.batch_loader import Cursor

KINDS = pytest.mark.parametrize("batches", ["packed", "bucketed", "padded"])


@KINDS
def test_a_cursor_finds_the_same_batches(batches):
    whole = list(islice(stream(batches=batches).after(Cursor()), 40))
    cursor = whole[16][1]
    rest = list(islice(stream(batches=batches).after(cursor), 23))
    assert [batch.rows for batch, _ in rest] == [batch.rows for batch, _ in whole[17:40]]
    assert rest[0][0].ids.equal(whole[17][0].ids)
    assert rest[-1][1] == whole[-1][1]


@KINDS
def test_every_row_once_an_epoch_and_another_order_each(batches):
    made = stream(batches=batches)
    first, second = (np.concatenate(made.plan(epoch)) for epoch in (0, 1))
    assert sorted(first) == sorted(second) == list(range(len(made.examples)))
    assert list(first) != list(second)
    other = np.concatenate(stream(batches=batches, seed=1).plan(0))
    assert list(first) != list(other)


def test_how_long_a_training_is():
    each = len(stream(batches="padded").plan(0))
    assert stream(batches="padded").steps == each
    assert stream(batches="padded", epochs=3).steps == 3 * each
    assert stream(batches="padded", max_steps=1000).steps == 1000
    assert stream(batches="padded", epochs=2, max_steps=3).steps == 3


def test_buckets_waste_less_than_documents_as_they_come():
    assert stream(batches="packed").padding_waste() == 0
    assert stream(batches="bucketed").padding_waste() < stream(batches="padded").padding_waste()


def test_a_new_document_is_not_counted_as_predicted():
    batch, _ = next(stream(batches="packed").after(Cursor()))
    begins = batch.targets == 2
    assert begins.any()
    assert (batch.weights[begins] == 0).all()
    assert (batch.weights[~begins] == 1).all()
