"""The key under which an audit is kept: everything that its verdict follows from.

Two runs share an audit only if they have the same key. In it are

    recipe      all settings, so that a new one is in it too, except those of `NOT_AUDITED`
    data        hash of the sources, and the tokenizer: special ids and texts are rows of an audit
    code        every source file and kernel of regard, every file given by --with
    machine     versions, device, precision, threads, kernels, and torch's switches
    model       its module tree: classes, plain attributes, buffers and vectors by value, of each
                matrix name, shape, dtype, whether it trains, zeros, and size

and not the values of matrices, which follow from the seed. An audit replaces them by random ones to
find what any values hide; a normal draw of the same standard deviation (`models/init_weights.py`)
is one more of these. That is an argument, not a proof, so whoever reuses an audit looks at the
gradients of the actual weights (`audits/leaks/these_weights.py`).

There is no key, and the model is always audited, where something outside the key may decide: loaded
weights, a task head (its audit depends on the rows of its batches), a kind declared broken, hooks,
classes that are neither regard's, torch's nor in a file of --with, a file of --with that asks for
anything outside itself, or source code that changed while the process ran.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.user_files import MODULE_PREFIX, loaded_files
from regard.models.model import Model
from regard.runs.audit_cache.self_contained import is_self_contained
from regard.runs.audit_cache.source_digest import source_digest
from regard.runs.audit_cache.state_digest import UnknownStateError, describe, tensor_digest
from regard.runs.experiment import Experiment
from regard.runs.training_audit import broken_kinds

KEY_SCHEMA = 1
NOT_AUDITED: dict[str, tuple[str, ...]] = {
    "evaluate": (),
    "samples": (),
    "train": (
        *("seed", "epochs", "max_steps", "lr", "min_lr_ratio", "warmup_ratio", "weight_decay"),
        *("max_grad_norm", "evaluate_every", "evaluate_documents", "patience", "sample_every"),
        *("checkpoint_every", "keep_checkpoints", "tensorboard"),
    ),
}
"Tables, or settings of a table, that neither build the model nor its rows."
OWN = ("regard", "torch", MODULE_PREFIX)
"Packages whose classes the key covers."
EMPTY = vars(nn.Module())
"The attributes of a module without anything: hooks are among them."
STORAGE = ("_parameters", "_buffers", "_modules", "training", "_non_persistent_buffers_set")


def audit_key(experiment: Experiment) -> str | None:
    """SHA-256; None where an audit must not be shared."""
    code = source_digest()
    files = loaded_files()
    if (
        code is None
        or experiment.initial_model is not None
        or experiment.model.task_head is not None
        or broken_kinds(experiment.recipe.model)
        or _has_global_hooks()
        or not all(is_self_contained(file.content) for file in files)
    ):
        return None
    facts = {
        "schema": KEY_SCHEMA,
        "recipe": _audited_settings(experiment.recipe.to_table()),
        "data": experiment.prepared.source,
        "tokenizer": experiment.prepared.tokenizer.fingerprint,
        "code": code,
        "files": sorted(file.sha256 for file in files),
        "machine": experiment.machine.as_dict(),
        "switches": _switches(),
    }
    try:
        facts["model"] = [*_model_facts(experiment.model)]
    except UnknownStateError:
        return None
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _audited_settings(table: dict[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in table.items() if key != "name"}
    for name, keys in NOT_AUDITED.items():
        kept = {key: value for key, value in settings[name].items() if key not in keys}
        settings[name] = kept if keys else {}
    return settings


def _switches() -> dict[str, Any]:
    """What changes how torch computes, beside the machine."""
    return {
        "numpy": np.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "dtype": str(torch.get_default_dtype()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul": torch.get_float32_matmul_precision(),
        "mkldnn": torch.backends.mkldnn.enabled,
    }


def _has_global_hooks() -> bool:
    everything = vars(nn.modules.module)
    return any(
        everything[name] for name in everything if name.startswith("_global_") and "_hook" in name
    )


def _model_facts(model: Model) -> Iterator[Any]:
    for name, module in model.named_modules():
        yield [name, *_module_facts(module)]
    for name, parameter in model.named_parameters():
        yield [name, *_parameter_facts(parameter)]
    for name, buffer in model.named_buffers():
        yield [name, tensor_digest(buffer)]


def _module_facts(module: nn.Module) -> Iterator[Any]:
    yield describe(type(module), own=OWN)
    for key, value in sorted(vars(module).items()):
        if key in STORAGE:
            continue
        if key in EMPTY:
            if value != EMPTY[key]:
                raise UnknownStateError(f"{key} of {type(module).__name__}")
            continue
        yield [key, describe(value, own=OWN)]


def _parameter_facts(parameter: Tensor) -> Iterator[Any]:
    own = parameter.detach()
    if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
        raise UnknownStateError("a hook of a parameter")
    yield [list(own.shape), list(own.stride()), str(own.dtype), parameter.requires_grad]
    if own.ndim < 2 or not own.is_floating_point():
        yield tensor_digest(own)
        return
    values = own.double()
    yield int((values == 0).sum())
    yield bool(torch.isfinite(values).all())
    # Of two seeds the same, but for a matrix of a few values just between two powers.
    yield round(float(values.square().mean().sqrt().clamp(min=1e-30).log2()))
