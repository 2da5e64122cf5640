"""Kernels under AddressSanitizer and UndefinedBehaviorSanitizer: random shapes touch no memory but
their own. `make sanitize` runs this file alone."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from regard.core.process import cpu
from regard.ops.cpu import library

ROOT = Path(__file__).parents[3]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g")
TIMEOUT = 600

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def kernel_library():
    """Instead of the libraries that are installed: these tests build their own."""


@pytest.fixture(scope="module", params=library.SUPPORTED_ON)
def sanitized(request, tmp_path_factory):
    """Name and file of a library built with both sanitizers, and the runtime to preload."""
    if cpu.simd_capability() not in library.SUPPORTED_ON[request.param]:
        pytest.skip(f"this CPU does not support {request.param}")
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler")
    answer = [compiler, "-print-file-name=libasan.so"]
    runtime = Path(subprocess.run(answer, capture_output=True, text=True).stdout.strip() or ".")
    if not (runtime.is_absolute() and runtime.is_file()):
        pytest.skip("the compiler has no AddressSanitizer that can be preloaded")
    file = tmp_path_factory.mktemp("sanitized") / f"{request.param}.so"
    build(request.param, compiler, file)
    return request.param, file, runtime


def build(name: str, compiler: str, file: Path) -> None:
    """From the sources and by the options of the installation, which pyproject.toml declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    modules = project["tool"]["setuptools"]["ext-modules"]
    module = next(one for one in modules if one["name"].endswith(f"_{name}"))
    options = [option for option in module["extra-compile-args"] if not option.startswith("-O")]
    command = [compiler, "-shared", "-fPIC", *options, *SANITIZERS, "-Wmissing-prototypes"]
    sources = [str(ROOT / source) for source in module["sources"]]
    built = subprocess.run(
        [*command, *sources, "-o", str(file)], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert built.returncode == 0, built.stderr
    assert "missing-prototypes" not in built.stderr, built.stderr


def call_kernels(sanitized, *arguments: str) -> subprocess.CompletedProcess[str]:
    name, file, runtime = sanitized
    command = [sys.executable, "-m", "tests.ops.cpu.random_calls", name, str(file), *arguments]
    environment = {
        **os.environ,
        "LD_PRELOAD": str(runtime),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT
    )


@pytest.mark.parametrize("seed", ["0", "1"])
def test_random_shapes_stay_in_their_memory(sanitized, seed):
    called = call_kernels(sanitized, "random", seed)
    assert called.returncode == 0, called.stderr[-4_000:]
    assert called.stdout.count("done") == 5


def test_sanitizer_finds_a_row_too_many(sanitized):
    """Otherwise the test above could not fail."""
    called = call_kernels(sanitized, "overflow")
    assert called.returncode != 0
    assert "heap-buffer-overflow" in called.stderr
