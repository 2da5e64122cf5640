"""The audit before training: below a task head, unused parameters are found by its loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.adapters.small_models import LIKE_BERT, VOCABULARY, classifier, family_of
from torch import nn

from regard.adapters.full import Full
from regard.audits.audit import audit
from regard.batch import Example
from regard.core.errors import UserError
from regard.runs.models.model_subject import model_subject
from regard.runs.results import AuditRecord
from regard.runs.training_audit import audit_before_training
from regard.training.batch_loader import BatchLoader
from regard.training.settings import Train


class Rows:
    """Labelled rows of two texts, of different lengths."""

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


def unused_parameters(model) -> tuple[set[str], AuditRecord]:
    loader = BatchLoader(Rows(), Train(batch_tokens=64), pad=0)
    record = audit_before_training(model, family_of("encoder", **LIKE_BERT), loader)
    names = {row.name for row in record.unused_parameters}
    return {name for name in names if not name.endswith("key.bias")}, record


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_parameters_trained_by_a_task_are_used(pooling):
    model = classifier(pooling=pooling, layers=1, **LIKE_BERT)
    Full().apply(model, seed=0)
    names, record = unused_parameters(model)
    assert names == set()
    assert any("by the training loss" in one for one in record.checked)
    assert any("leaks in the task head" in one for one in record.unchecked)


def test_parameters_that_the_head_does_not_use_are_named():
    model = classifier(pooling="mean", layers=1, **LIKE_BERT)
    Full().apply(model, seed=0)
    model.body.head.transform.linear.requires_grad_(True)
    model.body.pooler.requires_grad_(True)
    model.head.spare = nn.Parameter(torch.ones(3))
    unused = {
        f"body.{layer}.{name}"
        for layer in ("head.transform.linear", "pooler.linear")
        for name in ("weight", "bias")
    }
    assert unused_parameters(model)[0] == {*unused, "head.spare"}


def test_rows_that_depend_on_their_batch_are_not_trained():
    model = classifier(pooling="first", layers=1, **LIKE_BERT)
    Full().apply(model, seed=0)
    table = model.body.get_submodule(model.body.token_table)
    table.register_forward_hook(lambda module, args, out: out - out.mean(dim=0, keepdim=True))
    with pytest.raises(UserError, match="batch coupling"):
        unused_parameters(model)


def test_without_rows_of_the_task_unused_parameters_are_unchecked():
    result = audit(model_subject(classifier(layers=1, context=11)))
    assert not result.unused_parameters
    assert not any("gradient of every trained parameter" in one for one in result.checked)
    assert any("unused parameters: below a task head" in one for one in result.unchecked)
