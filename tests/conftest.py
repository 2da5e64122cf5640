"""For every test: machines are noisy, so no example fails because it took long."""

import os

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_configure() -> None:
    """Workers side by side take a core each: with all cores for every one they would only wait for
    each other."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
