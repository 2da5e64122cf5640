"""Settings for all tests. No Hypothesis deadline: test machines are noisy."""

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=200)  # for `make test-all`
settings.load_profile("patient")


def pytest_configure() -> None:
    """Pin each xdist worker to one core, so that workers do not compete for cores, and leave the
    width of tables to the tests: xdist gives its workers COLUMNS."""
    os.environ.pop("COLUMNS", None)
    gc.disable()  # while modules are imported: they hold no garbage
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _session_caches() -> Iterator[None]:
    from tests.session_caches import cache_cli_commands, cache_model_audits

    with cache_cli_commands(), cache_model_audits():
        yield


@pytest.fixture(autouse=True)
def _unload_user_files() -> Iterator[None]:
    """The parts of a test's own file would stay in their catalogues for later tests."""
    yield
    if user_files := sys.modules.get("regard.core.user_files"):
        for file in list(user_files._loaded.values()):
            user_files.unload(file)


@pytest.fixture
def bf16_matmul() -> None:
    """Skips where a bfloat16 matmul crashes the process, as it does on some CPUs."""
    from regard.core.process.cpu import bf16_matmul_works

    if not bf16_matmul_works():
        pytest.skip("bfloat16 matmuls crash on this CPU (tried in a child process)")
