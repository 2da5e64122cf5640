"""Which library is called, and when."""

import subprocess
import sys

import pytest
import torch

from regard.kernels import library


@pytest.mark.parametrize(
    ("capability", "switch", "pays"),
    [
        ("AVX2", None, True),
        ("AVX512", None, False),
        ("DEFAULT", None, False),
        ("AVX2", "off", False),
    ],
)
def test_where_it_pays(capability, switch, pays, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    if switch is None:
        monkeypatch.delenv(library.SWITCH, raising=False)
    else:
        monkeypatch.setenv(library.SWITCH, switch)
    assert library._pays_here() is pays


def test_a_library_of_another_version_is_not_called(monkeypatch):
    assert library._built() is not None
    monkeypatch.setattr(library, "VERSION", library.VERSION + 1)
    assert library._built() is None


def test_kernels_use_the_threads_that_torch_has():
    """A second copy of OpenMP would have threads of its own, which would wait against torch's."""
    loaded = (
        "import regard.kernels.library;"
        "print(len({line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line}))"
    )
    command = [sys.executable, "-c", loaded]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "1"
