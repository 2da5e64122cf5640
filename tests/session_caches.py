"""Caches for a test session: the command tree, and audits of equal models.

Audits are deterministic (`tests/audits/test_audit.py`). Two models are equal if their settings,
module classes, parameter values and `requires_grad` flags are.
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
from regard.runs.audit_cache import audit_reuse

AuditFunction = Callable[..., dict[str, Any]]


@contextmanager
def cache_cli_commands() -> Iterator[None]:
    """Building Typer's command tree takes longer than most commands."""
    get_command = cache(typer.main.get_command)
    with (
        mock.patch.object(typer.main, "get_command", get_command),
        mock.patch.object(typer.testing, "_get_command", get_command),
    ):
        yield


@contextmanager
def cache_model_audits() -> Iterator[None]:
    """The audit dominates a tiny training, and most tests train the same tiny model."""
    cached = _cached(audit_reuse.audit_before_training)
    with mock.patch.object(audit_reuse, "audit_before_training", cached):
        yield


def _cached(audit: AuditFunction) -> AuditFunction:
    audits: dict[Hashable, dict[str, Any]] = {}

    def cached_audit(model: Model, family: Any, loader: Any) -> dict[str, Any]:
        if model.task_head is not None:  # its audit depends on the training rows too
            return audit(model, family, loader)
        key = (repr(family), model.visibility, *map(type, model.modules()), _digest(model))
        if key not in audits:
            audits[key] = audit(model, family, loader)
        return deepcopy(audits[key])

    return cached_audit


def _digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in model.state_dict(keep_vars=True).items():
        digest.update(f"{name} {tensor.shape} {tensor.dtype} {tensor.requires_grad}".encode())
        digest.update(tensor.detach().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
