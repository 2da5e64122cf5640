"""GGUF files with damaged bytes: refused in one sentence, or imported."""

from __future__ import annotations

import random
from pathlib import Path

from tests.torture.commands import flip_bits, one_thread
from tests.torture.harness import Target
from tests.torture.targets.recipes import refuse

from regard.core.errors import UserError
from regard.interop.import_model import import_model


def make(home: Path) -> bytes:
    from tests.interop.test_gguf import write_gguf

    write_gguf(home / "tiny.gguf")
    one_thread()
    return (home / "tiny.gguf").read_bytes()


def trial(content: bytes, generator: random.Random, folder: Path) -> str:
    file = folder / "model.gguf"
    # Most of the file is weights; what is read as sizes and names stands in front.
    front = generator.choice((200, 2000, len(content)))
    for _ in range(generator.randrange(1, 4)):
        content = flip_bits(content[:front], generator) + content[front:]
    file.write_bytes(content)
    try:
        import_model(str(file), folder / "imported")
    except UserError as problem:
        return refuse(problem)
    return "imported"


TARGET = Target(
    "GGUF",
    "GGUF files with damaged headers, metadata and tensors",
    2_000,
    trial,
    make,
    seconds=40,
    batch=20,
)
