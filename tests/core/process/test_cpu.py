"""Capabilities of the machine are probed before use, and have fallbacks where they are missing."""

import os
import sys

import pytest
import torch
from torch import nn

import regard
from regard.core.errors import UserError
from regard.core.process import cpu, host
from regard.core.process.peak_memory import peak_memory_bytes
from regard.training import device
from regard.training.device import choose_machine


def test_usable_cores_respect_cpu_affinity():
    assert cpu.usable_cores() == len(os.sched_getaffinity(0))


def test_usable_cores_without_affinity_are_all_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cpu.usable_cores() == os.cpu_count()


def test_peak_memory_is_none_where_the_system_does_not_report_it(monkeypatch):
    assert peak_memory_bytes() > 10**7
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_memory_bytes() is None


@pytest.fixture
def crashing_bf16(monkeypatch):
    """A CPU on which bfloat16 matmuls end the process."""
    monkeypatch.setattr(cpu, "BF16_TRIAL", "import os; os.abort()")
    cpu.bf16_matmul_works.cache_clear()
    yield
    cpu.bf16_matmul_works.cache_clear()


@pytest.mark.usefixtures("crashing_bf16")
def test_crashing_bf16_matmul_is_detected_in_a_child_process():
    assert not cpu.bf16_matmul_works()


@pytest.mark.usefixtures("crashing_bf16")
def test_audit_of_a_bf16_model_is_refused_where_matmul_crashes():
    model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9)).to(torch.bfloat16)
    with pytest.raises(UserError, match=r"matmul crashes on this CPU\. .*model\.float\(\)"):
        regard.audit(model, "causal")


@pytest.mark.parametrize(("works", "precision"), [(True, "bf16"), (False, "fp32")])
def test_accelerator_trains_in_bf16_only_where_matmul_works(works, precision, monkeypatch):
    monkeypatch.setattr(device, "bf16_matmul_works", lambda name: works)
    monkeypatch.setattr(device, "DEVICES", ("meta",))
    machine = choose_machine("meta", threads=torch.get_num_threads())
    assert machine.precision == precision
    assert choose_machine_on_cpu(monkeypatch).precision == "fp32"


@pytest.mark.usefixtures("crashing_bf16")
def test_bf16_is_refused_in_one_sentence_where_it_crashes():
    with pytest.raises(UserError, match=r'train\.precision = "bf16" cannot .*products fail on cpu'):
        choose_machine("cpu", threads=torch.get_num_threads(), precision="bf16")
    assert choose_machine("cpu", threads=torch.get_num_threads()).precision == "fp32"


@pytest.mark.parametrize(
    ("gpus", "reason"), [(2, "the last one here is cuda:1"), (0, "there is no cuda device")]
)
def test_a_gpu_that_is_not_there_is_refused(gpus, reason, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(UserError, match=rf"train\.device = 'cuda:7' cannot .*{reason}"):
        choose_machine("cuda:7", threads=torch.get_num_threads())


def test_tensors_go_to_a_gpu_through_pinned_memory(monkeypatch):
    pinned = []
    monkeypatch.setattr(host, "PINNED_FOR", ("meta",))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: pinned.append(x) or x)
    x = torch.ones(2)
    assert host.copy_to(x, "meta").device.type == "meta"
    assert pinned == [x]
    host.copy_to(x, "cpu")
    assert len(pinned) == 1


def choose_machine_on_cpu(monkeypatch):
    monkeypatch.setattr(device, "DEVICES", ("cpu",))
    return choose_machine("cpu", threads=torch.get_num_threads())
