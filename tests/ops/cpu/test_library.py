"""Which library of kernels is loaded, and how kernels are called."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.function import HeadShape
from regard.attention.kinds.additive import Additive
from regard.attention.kinds.dot import Dot
from regard.attention.masks.mask import Grid, causal
from regard.attention.paths.kernels import kernel_attention
from regard.attention.paths.query_blocks import BlockedAttention
from regard.core.process import cpu
from regard.ops import cross_entropy, linear
from regard.ops.cpu import decode, library

SOURCES = Path(library.__file__).parent


@pytest.fixture
def by_shape():
    """The shapes where kernels are chosen stay as they are."""


@pytest.mark.parametrize(
    ("capability", "amd", "variable", "names", "matmuls_too"),
    [
        ("AVX2", True, None, ("avx2",), True),
        ("AVX2", False, None, ("avx2",), True),
        ("AVX512", True, None, ("avx512", "avx2"), True),
        ("AVX512", False, None, ("avx512",), False),
        ("DEFAULT", True, None, (), True),
        ("AVX512", True, "off", (), True),
        ("AVX512", True, "avx2", ("avx2",), True),
        ("AVX512", False, "avx512", ("avx512",), True),
        ("AVX2", True, "avx512", (), True),
    ],
)
def test_cpu_and_environment_decide_the_kernels(
    capability, amd, variable, names, matmuls_too, monkeypatch
):
    monkeypatch.setattr(cpu, "simd_capability", lambda: capability)
    monkeypatch.setattr(cpu, "is_amd", lambda: amd)
    if variable is None:
        monkeypatch.delenv(library.ENVIRONMENT_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(library.ENVIRONMENT_VARIABLE, variable)
    assert library.preferred_libraries() == names
    assert library.outruns_matmul() == matmuls_too


@pytest.mark.parametrize("replaces_matmul", [True, False])
def test_where_torchs_matmul_is_faster_kernels_do_what_is_no_matmul(
    replaces_matmul, kernel_library, by_shape, monkeypatch
):
    """As on an Intel with AVX-512, which torch's matmuls are tuned for."""
    monkeypatch.setattr(library, "REPLACES_MATMUL", replaces_matmul)
    assert library.description().endswith("matmuls of torch") != replaces_matmul
    q = torch.randn(4, 2, 64, 32)
    shape = HeadShape(width=32, heads=2, context=64)
    dot, additive = (
        attend(q, q, q, causal(), settings.build(shape)) for settings in (Dot(), Additive())
    )
    assert (dot.path == "kernel") == replaces_matmul
    assert additive.path == "kernel"
    x, weight = torch.randn(4096, 64), torch.randn(64, 64)
    assert linear.supports(x, weight, None) == replaces_matmul
    assert decode.supports(x) == replaces_matmul
    ones = torch.ones(len(x))
    used = [cross_entropy.supports(x, torch.randn(v, 64), ones) for v in (65, 7999, 8000)]
    assert used == [False, replaces_matmul, True]


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
