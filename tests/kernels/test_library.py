"""Which library is called, and when."""

import subprocess
import sys

import pytest

from regard import processor
from regard.kernels import library


@pytest.mark.parametrize(
    ("vectors", "by_amd", "switch", "names"),
    [
        ("AVX2", True, None, ("avx2",)),
        ("AVX2", False, None, ("avx2",)),
        ("AVX512", True, None, ("avx512", "avx2")),
        ("AVX512", False, None, ()),
        ("DEFAULT", True, None, ()),
        ("AVX512", True, "off", ()),
        ("AVX512", True, "avx2", ("avx2",)),
        ("AVX512", False, "avx512", ("avx512",)),
        ("AVX2", True, "avx512", ()),
    ],
)
def test_the_choice_follows_from_the_processor(vectors, by_amd, switch, names, monkeypatch):
    monkeypatch.setattr(processor, "vectors", lambda: vectors)
    monkeypatch.setattr(processor, "is_by_amd", lambda: by_amd)
    if switch is None:
        monkeypatch.delenv(library.SWITCH, raising=False)
    else:
        monkeypatch.setenv(library.SWITCH, switch)
    assert library.chosen() == names


def test_a_library_of_another_version_is_not_called(used, monkeypatch):
    monkeypatch.setattr(library, "VERSION", library.VERSION + 1)
    assert library.built(used.name) is None


def test_kernels_use_the_threads_that_torch_has():
    """A second copy of OpenMP would have threads of its own, which would wait against torch's."""
    loaded = (
        "import regard.kernels.library;"
        "print(len({line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line}))"
    )
    command = [sys.executable, "-c", loaded]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "1"
