"""Waiting threads of a command spin briefly. Each case is a child process: the OpenMP runtime reads
its environment once, when torch is loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from regard.core.process.waiting_threads import WAITING_VARIABLES

COMMAND = """
import sys
from regard.cli.app import main
sys.argv = ["regard", "mask", "causal", "--length", "4"]
main()
"""
AS_LIBRARY = "import torch; from regard.core.process.waiting_threads import limit_spinning; "


def displayed_spin_count(**environment: str) -> str:
    """The spin count in force while a command runs, as the runtime itself displays it."""
    inherited = {name: one for name, one in os.environ.items() if name not in WAITING_VARIABLES}
    completed = subprocess.run(
        [sys.executable, "-c", COMMAND],
        env={**inherited, "OMP_DISPLAY_ENV": "VERBOSE", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    displayed = re.search(r"GOMP_SPINCOUNT = '(.+)'", completed.stderr)
    if displayed is None:
        pytest.skip("torch computes with another OpenMP runtime than GNU's here")
    return displayed[1]


def test_threads_of_a_command_spin_briefly() -> None:
    assert displayed_spin_count() == "1000"


def test_environment_that_says_how_to_wait_is_left_alone() -> None:
    assert displayed_spin_count(GOMP_SPINCOUNT="7") == "7"
    assert displayed_spin_count(OMP_WAIT_POLICY="PASSIVE") == "0"


def test_nothing_is_set_after_torch_is_loaded() -> None:
    inherited = {name: one for name, one in os.environ.items() if name not in WAITING_VARIABLES}
    completed = subprocess.run(
        [sys.executable, "-c", f"{AS_LIBRARY} import os; print(limit_spinning(), *os.environ)"],
        env=inherited,
        capture_output=True,
        text=True,
        check=True,
    )
    answer, *variables = completed.stdout.split()
    assert answer == "False"
    assert not set(WAITING_VARIABLES) & set(variables)
