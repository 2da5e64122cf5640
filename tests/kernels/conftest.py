"""Kernels are tried wherever they were built and can run, also where they are not used."""

import pytest
import torch

from regard.kernels import library


@pytest.fixture(autouse=True)
def kernels_pay(monkeypatch):
    if library._LIBRARY is None:
        pytest.skip("the kernels were not built: no C compiler, or another processor than x86-64")
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("this processor has no AVX2")
    monkeypatch.setattr(library, "PAYS", True)
