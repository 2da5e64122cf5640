"""Which library is called, and when."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.core import cpu
from regard.ops.cpu import library

SOURCES = Path(library.__file__).parent


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
    monkeypatch.setattr(cpu, "simd_capability", lambda: vectors)
    monkeypatch.setattr(cpu, "is_amd", lambda: by_amd)
    if switch is None:
        monkeypatch.delenv(library.ENVIRONMENT_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(library.ENVIRONMENT_VARIABLE, switch)
    assert library.preferred_libraries() == names


def test_a_library_of_another_version_is_not_called(used, monkeypatch):
    monkeypatch.setattr(library, "VERSION", library.VERSION + 1)
    assert library.load_library(used.name) is None


def test_kernels_use_the_threads_that_torch_has():
    """A second copy of OpenMP would have threads of its own, which would wait against torch's."""
    loaded = (
        "import regard.ops.cpu.library;"
        "print(len({line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line}))"
    )
    command = [sys.executable, "-c", loaded]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "1"


def declared_in_c() -> dict[str, str]:
    """The signature of every kernel, read off its C prototype with the macros expanded."""
    code = "\n".join(file.read_text() for file in sorted(SOURCES.glob("*.[ch]")))
    code = code.replace("\\\n", " ")
    macros = dict(re.findall(r"#define (ROWS_OF\(x\)|SETTING)\s+(.*)", code))
    signatures = {}
    for name, arguments in re.findall(r"^int (regard_\w+)\(((?:[^(){}]|\(\w+\))+)\) {", code, re.M):
        arguments = re.sub(r"ROWS_OF\(\w+\)", macros["ROWS_OF(x)"], arguments)
        arguments = arguments.replace("SETTING", macros["SETTING"])
        if arguments != "void":
            signatures[name] = "".join(map(letter_of, arguments.split(",")))
    return signatures


def letter_of(argument: str) -> str:
    if "*" in argument:
        return "t"
    return "f" if "float" in argument else "n"


def test_signatures_are_those_of_the_c_prototypes():
    assert declared_in_c() == library.SIGNATURES


def test_a_whole_number_reaches_c_as_the_float_it_declares():
    """Inferred from Python types, `scale=1` was passed in another register than `scale=1.0`."""
    from regard.ops.cpu import attention

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 20, 16) for _ in "qkv")
    one, other = (
        attention.forward(
            q, k, v, attention.KernelAttention(causal=True, kept=None, scale=scale)
        ).out
        for scale in (1, 1.0)
    )
    assert torch.equal(one, other)


@pytest.mark.parametrize("arguments", [(1, 2, 3), ("x", None, 1, 1), (None, None, 1.5, 1)])
def test_arguments_that_contradict_the_signature_are_refused(arguments):
    with pytest.raises(TypeError, match=r"regard_pack takes 4|where the signature says"):
        library.run("regard_pack", *arguments)
