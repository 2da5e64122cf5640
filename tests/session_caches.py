"""What one test process does once, though many tests ask for it: the answer is the same each time.

`tests/audits/test_audit.py` holds that the same model is told the same; a model counts as the same
where its settings, its classes, its numbers and what of them is trained are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from typing import Any
from unittest import mock

import torch
import typer.main
import typer.testing
from torch import nn

from regard.models.model import Model
from regard.models.task_models.task_model import TaskModel
from regard.runs import train

Audited = Callable[..., dict[str, Any]]


@contextmanager
def cache_cli_commands() -> Iterator[None]:
    """To look through all verbs and their options takes longer than most of them run."""
    built = cache(typer.main.get_command)
    with (
        mock.patch.object(typer.main, "get_command", built),
        mock.patch.object(typer.testing, "_get_command", built),
    ):
        yield


@contextmanager
def cache_model_audits() -> Iterator[None]:
    """Of a tiny training the audit is the larger part, and most tests train the same tiny model."""
    with mock.patch.object(train, "audit_before_training", _once(train.audit_before_training)):
        yield


def _once(audited: Audited) -> Audited:
    seen: dict[Hashable, dict[str, Any]] = {}

    def first_or_known(model: Model, family: Any, stream: Any) -> dict[str, Any]:
        if isinstance(model, TaskModel):  # then rows of the training are asked as well
            return audited(model, family, stream)
        which = (repr(family), model.visibility, *map(type, model.modules()), _numbers(model))
        if which not in seen:
            seen[which] = audited(model, family, stream)
        return deepcopy(seen[which])

    return first_or_known


def _numbers(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in model.state_dict(keep_vars=True).items():
        digest.update(f"{name} {tensor.shape} {tensor.dtype} {tensor.requires_grad}".encode())
        digest.update(tensor.detach().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
