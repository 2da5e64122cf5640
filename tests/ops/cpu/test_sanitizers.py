"""Kernels under AddressSanitizer and UndefinedBehaviorSanitizer: random shapes touch no memory but
their own. `make sanitize` runs this file alone; `tests/torture/targets/kernels.py` takes hours."""

import subprocess

import pytest
from tests.ops.cpu.random_calls import KERNELS
from tests.ops.cpu.sanitized import ROOT, TIMEOUT, CannotBuildError, Sanitized, build

from regard.ops.cpu import library

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def kernel_library():
    """Instead of the libraries that are installed: these tests build their own."""


@pytest.fixture(scope="module", params=library.SUPPORTED_ON)
def sanitized(request, tmp_path_factory):
    try:
        return build(request.param, tmp_path_factory.mktemp("sanitized"))
    except CannotBuildError as reason:
        pytest.skip(str(reason))


def call_kernels(sanitized: Sanitized, *arguments: str) -> subprocess.CompletedProcess[str]:
    command, environment = sanitized.command(*arguments), sanitized.environment
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT
    )


@pytest.mark.parametrize("seed", ["0", "1"])
def test_random_shapes_stay_in_their_memory(sanitized, seed):
    called = call_kernels(sanitized, "random", seed)
    assert called.returncode == 0, called.stderr[-4_000:]
    assert called.stdout.count("done") == len(KERNELS)


def test_sanitizer_finds_a_row_too_many(sanitized):
    """Otherwise the test above could not fail."""
    called = call_kernels(sanitized, "overflow")
    assert called.returncode != 0
    assert "heap-buffer-overflow" in called.stderr
