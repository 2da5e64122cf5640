"""The audit before a training: under the head of a task, what can learn is asked by its loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.adapters.small_models import LIKE_BERT, VOCABULARY, family_of, classifier
from torch import nn

from regard.adapters.full import Full
from regard.audits.audit import audit
from regard.batch import Example
from regard.runs.training_audit import audit_before_training
from regard.training.batch_loader import BatchLoader
from regard.training.settings import Train


class Rows:
    """Rows of two texts with a label, each of its own length."""

    lengths = np.arange(20) % 7 + 5

    def __len__(self) -> int:
        return len(self.lengths)

    def example(self, row: int, generator: np.random.Generator) -> Example:
        length = int(self.lengths[row])
        ids = np.random.default_rng(row).integers(VOCABULARY, size=length)
        weights = np.zeros(length, dtype=np.float32)
        weights[0] = 1.0
        segments = (np.arange(length) > length // 2).astype(np.int64)
        return Example(ids, ids, weights, segments, labels=np.array([row % 2]))


def unused_parameters(model) -> tuple[set[str], dict]:
    stream = BatchLoader(Rows(), Train(batch_tokens=64), pad=0)
    seen = audit_before_training(model, family_of("encoder", **LIKE_BERT), stream)
    names = {one["name"] for one in seen["unused_parameters"]}
    return {name for name in names if not name.endswith("key.bias")}, seen


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_what_a_task_trains_is_reached(pooling):
    model = classifier(pooling=pooling, layers=1, **LIKE_BERT)
    Full().apply(model, seed=0)
    names, seen = unused_parameters(model)
    assert names == set()
    assert any("by the loss of the training" in one for one in seen["checked"])
    assert any("leaks in the head" in one for one in seen["unchecked"])


def test_what_the_head_does_not_read_is_named():
    model = classifier(pooling="mean", layers=1, **LIKE_BERT)
    Full().apply(model, seed=0)
    model.body.head.transform.linear.requires_grad_(True)
    model.body.pooler.requires_grad_(True)
    model.head.spare = nn.Parameter(torch.ones(3))
    beside = {
        f"body.{part}.{sort}"
        for part in ("head.transform.linear", "pooler.linear")
        for sort in ("weight", "bias")
    }
    assert unused_parameters(model)[0] == {*beside, "head.spare"}


def test_without_rows_of_the_task_nothing_is_claimed():
    seen = audit(classifier(layers=1, context=11))
    assert not seen.unused_parameters
    assert not any("gradient of every trained parameter" in one for one in seen.checked)
    assert any("unused parameters: below a task head" in one for one in seen.unchecked)
