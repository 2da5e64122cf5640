"""A training step, and decoding, read nothing back from the device: both run on `meta`.

Tensors on `meta` have shapes and no values, so whatever reads a value, or mixes devices, raises.
Not caught are tensors of no dimension on the CPU, which take part in any operation, and generators.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from tests.contracts.training_cases import (
    ADAPTER_NAMES,
    FAMILY_TABLES,
    HEADS,
    KINDS,
    OBJECTIVE_NAMES,
    POSITION_TABLES,
    TOKENS,
    Case,
    batches_of,
    covering_cases,
    model_of,
)

from regard.attention.kinds import ATTENTION
from regard.attention.positions import POSITIONS
from regard.batch import RowLayout
from regard.models.architectures.source_bound_decoder import SourceBoundDecoder
from regard.models.families import FAMILIES
from regard.models.model import Model
from regard.models.task_models.sentence_model import SentenceEncoder, SentenceModel
from regard.models.task_models.task_model import TaskModel
from regard.training.device import Machine, choose_machine
from regard.training.loop import queue_update, update
from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

STEPS = 3
"Of decoding: the first fills the cache."


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that computes shapes alone. torch's fused optimizer runs on it, but for a check of
    the device's name."""
    adam = importlib.import_module("torch.optim.adam")
    monkeypatch.setattr(adam, "_device_dtype_check_for_fused", lambda *_, **__: None)
    return replace(choose_machine("cpu", threads=torch.get_num_threads()), device="meta")


def problem_of_step(case: Case, machine: Machine) -> str:
    """Why an update fails; empty where it does not."""
    model, settings = model_of(case).to(machine.device).train(), Train()
    optimizer = build_optimizer(model, settings)
    [batch] = batches_of(case, count=1)
    try:
        measured = queue_update(
            model, optimizer, batch, step=1, lr=0.1, settings=settings, machine=machine
        )
    except (RuntimeError, NotImplementedError) as problem:
        return f"{case.id}: {problem}"
    assert measured.device.type == "meta"
    assert {p.device.type for p in model.parameters()} == {"meta"}
    return ""


@pytest.mark.parametrize(
    "step",
    [pytest.param(3, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("family", FAMILY_TABLES)
def test_a_training_step_reads_nothing(family, step, meta):
    """Every pair of kind, position, family, objective, adapter and head is part of some case."""
    cases = [case for case in covering_cases() if case.family == family][::step]
    assert cases
    assert not list(filter(None, (problem_of_step(case, meta) for case in cases)))


def test_a_step_that_reads_the_device_is_found(meta, monkeypatch):
    """Each of these stalled an accelerator in every step, until layouts were carried."""
    case = Case("decoder", "dot", "learned", "causal", "full", TOKENS)
    assert not problem_of_step(case, meta)
    monkeypatch.setattr("regard.models.inputs.is_readable", lambda _: True)
    monkeypatch.setattr("regard.models.inputs.ModelInputs.layout", None)
    assert "meta" in problem_of_step(case, meta)


@pytest.mark.usefixtures("bf16_matmul")
@pytest.mark.parametrize("family", FAMILY_TABLES)
def test_a_training_step_in_bf16(family):
    machine = choose_machine("cpu", threads=torch.get_num_threads(), precision="bf16")
    settings = Train()
    for case in [case for case in covering_cases() if case.family == family][::6]:
        model = model_of(case).train()
        optimizer = build_optimizer(model, settings)
        [batch] = batches_of(case, count=1)
        loss, norm = update(
            model, optimizer, batch, step=1, lr=0.01, settings=settings, machine=machine
        )
        assert 0 < loss < 20, case.id
        assert norm > 0 or case.kind == "hard", case.id


def test_every_part_of_the_catalogues_is_walked():
    cases = covering_cases()
    for walked, names in (
        ({case.family.partition(",")[0] for case in cases}, FAMILIES.names()),
        ({str(KINDS[case.kind]["kind"]) for case in cases}, ATTENTION.names()),
        ({str(POSITION_TABLES[case.position]["kind"]) for case in cases}, POSITIONS.names()),
        ({case.objective for case in cases}, OBJECTIVE_NAMES),
        ({case.adapter for case in cases}, {*ADAPTER_NAMES} - {"none"}),
    ):
        assert walked == {*names}
    body = model_of(Case("encoder", "dot", "learned", "masked", "full", "patches")).body
    built = {type(attach(body)) for name, attach in HEADS.items() if name != TOKENS}
    without_loss = {SentenceModel, SentenceEncoder}
    assert built == {*_subclasses(TaskModel)} - without_loss


def _subclasses(of: type) -> Iterator[type]:
    for one in of.__subclasses__():
        if one.__module__.startswith("regard.models."):
            yield one
            yield from _subclasses(one)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("family", FAMILY_TABLES)
def test_cached_decoding_reads_nothing(family, padded):
    cases = [case for case in covering_cases() if case.family == family and case.head == TOKENS]
    by_kind = {case.kind: case for case in cases}
    for case in list(by_kind.values())[padded::3]:
        model = model_of(case).to("meta").eval()
        if model.body.generates:
            decode_on_meta(model, padded=padded)


@torch.inference_mode()
def decode_on_meta(model: Model, *, padded: bool) -> None:
    valid = torch.ones(2, 5, dtype=torch.bool)
    if padded:
        valid[1, 3:] = False
    ids = torch.zeros(2, 5, dtype=torch.int64, device="meta")
    decoder = model
    if model.body.reads != "row":
        decoder = SourceBoundDecoder(model, ids, valid.to("meta"), RowLayout.of(valid))
    cache = decoder.new_cache(2)
    so_far, new = valid.flip(1), ids
    for _ in range(STEPS):
        logits = decoder.step(
            new,
            valid=so_far.to("meta") if padded else None,
            positions=torch.zeros_like(new),
            cache=cache,
        )
        assert logits.device.type == "meta"
        assert logits.shape[0] == 2
        new = logits.argmax(dim=-1, keepdim=True)
        so_far = torch.nn.functional.pad(so_far, (0, 1), value=True)
    cache.reorder(torch.zeros(2, dtype=torch.int64, device="meta"))
