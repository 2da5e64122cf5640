"""Batch loader: the order is a function of seed and epoch, and a cursor resumes it."""

from itertools import islice

import numpy as np
import pytest
from tests.training.toy_loader import build_loader

from regard.training.batch_loader import Cursor

EVERY_BATCHING = pytest.mark.parametrize("batches", ["packed", "bucketed", "padded"])


@EVERY_BATCHING
def test_loader_resumes_after_a_cursor(batches):
    all_batches = list(islice(build_loader(batches=batches).batches_after(Cursor()), 40))
    cursor = all_batches[16][1]
    resumed = list(islice(build_loader(batches=batches).batches_after(cursor), 23))
    assert [batch.rows for batch, _ in resumed] == [batch.rows for batch, _ in all_batches[17:40]]
    assert resumed[0][0].ids.equal(all_batches[17][0].ids)
    assert resumed[-1][1] == all_batches[-1][1]


@EVERY_BATCHING
def test_epoch_has_every_row_once_in_an_order_of_seed_and_epoch(batches):
    loader = build_loader(batches=batches)
    first, second = (np.concatenate(loader.plan(epoch)) for epoch in (0, 1))
    assert sorted(first) == sorted(second) == list(range(len(loader.examples)))
    assert list(first) != list(second)
    other_seed = np.concatenate(build_loader(batches=batches, seed=1).plan(0))
    assert list(first) != list(other_seed)


def test_steps_follow_from_epochs_and_max_steps():
    steps_per_epoch = len(build_loader(batches="padded").plan(0))
    assert build_loader(batches="padded").steps == steps_per_epoch
    assert build_loader(batches="padded", epochs=3).steps == 3 * steps_per_epoch
    assert build_loader(batches="padded", max_steps=1000).steps == 1000
    assert build_loader(batches="padded", epochs=2, max_steps=3).steps == 3


def test_bucketing_pads_less_than_random_order():
    padded = build_loader(batches="padded").padding_waste()
    assert build_loader(batches="packed").padding_waste() == 0
    assert build_loader(batches="bucketed").padding_waste() < padded


def test_start_of_a_packed_document_has_no_loss():
    batch, _ = next(build_loader(batches="packed").batches_after(Cursor()))
    is_start = batch.targets == 2
    assert is_start.any()
    assert (batch.weights[is_start] == 0).all()
    assert (batch.weights[~is_start] == 1).all()
