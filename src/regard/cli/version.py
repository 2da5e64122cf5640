"""`regard --version`: what decides how a training computes, for a bug report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from regard import __version__


def print_version() -> None:
    """Versions at once, from metadata; kernels and device once torch is imported."""
    print(f"regard {__version__}")
    print(f"Python {platform.python_version()} on {platform.platform(terse=True)}")
    try:
        print(f"torch {installed_version('torch')}", flush=True)
    except PackageNotFoundError:
        print("torch is not installed")
        return
    from regard.core.process.cpu import simd_capability
    from regard.ops.cpu import library
    from regard.training.device import best_device

    print(f"kernels {library.description()} (CPU: {simd_capability()})")
    print(f"device {best_device()}")
