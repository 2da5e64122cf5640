"""Tests run with each library that is built and runs on this CPU, also if it is not preferred."""

import pytest

from regard.core.process import cpu
from regard.ops import cross_entropy, linear
from regard.ops.cpu import library


@pytest.fixture(autouse=True, params=library.SUPPORTED_ON)
def kernel_library(request, monkeypatch):
    if cpu.simd_capability() not in library.SUPPORTED_ON[request.param]:
        pytest.skip(f"this CPU does not support {request.param}")
    loaded = library.load_library(request.param)
    if loaded is None:
        pytest.skip("the kernels were not built: no C compiler, or not x86-64")
    monkeypatch.setattr(library, "LIBRARY", loaded)
    monkeypatch.setattr(library, "REPLACES_MATMUL", True)
    return loaded


@pytest.fixture(autouse=True)
def _any_shape(request, monkeypatch):
    """Also shapes where torch is faster."""
    if "by_shape" not in request.fixturenames:
        monkeypatch.setattr(linear, "MIN_ROWS", dict.fromkeys(linear.MIN_ROWS, 128))
        monkeypatch.setattr(linear, "MIN_PRODUCTS", 0)
        monkeypatch.setattr(linear, "MIN_WIDTH", 0)
        monkeypatch.setattr(cross_entropy, "MIN_VOCABULARY", 0)
