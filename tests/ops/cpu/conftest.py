"""Each library is tried wherever it was built and can run, also where it is not used."""

import pytest

from regard.core import cpu
from regard.ops.cpu import library


@pytest.fixture(autouse=True, params=library.RUNS_ON)
def used(request, monkeypatch):
    if cpu.simd_capability() not in library.RUNS_ON[request.param]:
        pytest.skip(f"this processor does not know the instructions of {request.param}")
    built = library.load_library(request.param)
    if built is None:
        pytest.skip("the kernels were not built: no C compiler, or another processor than x86-64")
    monkeypatch.setattr(library, "LIBRARY", built)
    return built
