"""Which library of kernels is loaded, and how kernels are called."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.attention.masks.mask import Grid, causal
from regard.attention.paths.kernels import kernel_attention
from regard.attention.paths.query_blocks import BlockedAttention
from regard.core.process import cpu
from regard.ops.cpu import library

SOURCES = Path(library.__file__).parent


@pytest.mark.parametrize(
    ("capability", "amd", "variable", "names"),
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
def test_cpu_and_environment_decide_the_library(capability, amd, variable, names, monkeypatch):
    monkeypatch.setattr(cpu, "simd_capability", lambda: capability)
    monkeypatch.setattr(cpu, "is_amd", lambda: amd)
    if variable is None:
        monkeypatch.delenv(library.ENVIRONMENT_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(library.ENVIRONMENT_VARIABLE, variable)
    assert library.preferred_libraries() == names


def test_library_of_another_version_is_not_loaded(kernel_library, monkeypatch):
    monkeypatch.setattr(library, "VERSION", library.VERSION + 1)
    assert library.load_library(kernel_library.name) is None


def test_kernels_share_torchs_openmp_runtime():
    """A second runtime would have a thread pool of its own, which would compete with torch's."""
    program = (
        "import regard.ops.cpu.library;"
        "print(len({line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line}))"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "1"


def test_signatures_are_those_of_the_compiled_prototypes(kernel_library):
    """Types by hand, for one kernel of every form."""
    signatures = kernel_library.signatures
    assert signatures["regard_pack"] == "tt" + "nn"
    assert signatures["regard_decode_attention"] == "ttttt" + "n" * 6 + "fn"
    attention = 8 * "tnnn" + "tttt" + "n" * 8 + "ffn"
    assert signatures["regard_dot_forward"] == signatures["regard_additive_backward"] == attention
    sources = "".join(file.read_text(encoding="utf-8") for file in SOURCES.glob("*.c"))
    defined = set(re.findall(r"^int (regard_\w+)\((?!void)", sources, re.M))
    assert set(signatures) == defined


def test_unknown_c_type_is_refused():
    with pytest.raises(KeyError):
        library.read_signatures("int f(double x);")


def test_integer_argument_is_passed_as_the_declared_float():
    """Inferred from Python types, `scale=1` was passed in another register than `scale=1.0`."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 20, 16) for _ in "qkv")
    blocked = BlockedAttention(causal(), Grid.over(queries=20, keys=20))
    by_integer, by_float = (kernel_attention(q, k, v, blocked, scale=s) for s in (1, 1.0))
    assert torch.equal(by_integer, by_float)


@pytest.mark.parametrize("arguments", [(1, 2, 3), ("x", None, 1, 1), (None, None, 1.5, 1)])
def test_arguments_that_contradict_the_signature_are_refused(arguments):
    with pytest.raises(TypeError, match=r"regard_pack takes 4|where the signature says"):
        library.run("regard_pack", *arguments)
