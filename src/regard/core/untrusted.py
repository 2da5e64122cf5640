"""One budget for what others may have made: run folders, model folders, recipes, tokenizers, data.

A file can be small and yet take all memory, or all stack, to read. Whoever reads one does it with
these functions, and what exceeds a limit is a `ValueError` or a `UserError`, never a crash. The
limits lie far above anything that a person or another tool writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core.errors import UserError

MAX_DEPTH = 64
"Tables and lists inside each other, in JSON and TOML."
MAX_FILE_BYTES = 1 << 28
"Of one file that is read as a whole: settings, tokenizers, results."
MAX_LINE_BYTES = 1 << 28
"Of one line of data; gzip turns 3 MB into a line of 3 GB."
MAX_TENSORS = 1 << 18
"In one checkpoint; the largest published ones have some ten thousand."
MAX_LAYERS = 1 << 12
"Of one model, and heads of one layer; published models have a few hundred."
MAX_POSITIONS = 1 << 24
"Of one context: tables of positions are as long."
MAX_PATH = 4096
MAX_SHOWN = 200
"Characters of a value in an error."
INTEGER_LIMIT = 1 << 63
"TOML's integers have 64 bits; Python's would have as many digits as a file gives."


def parse_json(text: str | bytes) -> Any:
    """`json.loads`, with a `ValueError` for what is nested too deep as well."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
    opening = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(map(text.count, opening)) > MAX_DEPTH:  # type: ignore[arg-type]  # most texts have fewer
        check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """A `ValueError` where tables and lists are nested too deep for functions that recurse."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def check_values(value: Any) -> None:
    """A `ValueError` for numbers and texts that no setting can have; `value` is not too deep."""
    if isinstance(value, int) and not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        raise ValueError("an integer of more than 64 bits")
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a text with the character U+0000")
    for inner in _inside(value):
        check_values(inner)
    if isinstance(value, Mapping):
        for key in value:
            check_values(key)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def read_limited(path: Path) -> bytes:
    """The bytes of a file, up to `MAX_FILE_BYTES`; of a device or a pipe too."""
    with path.open("rb") as file:
        raw = file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise ValueError(f"longer than {MAX_FILE_BYTES >> 20} MB")
    return raw


def shorten(value: Any) -> str:
    """A value as an error shows it: its representation, or the beginning of a long one."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # numbers too long to print, tables too deep
        return f"a value that cannot be shown ({type(value).__name__})"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text):,} characters)"


@contextmanager
def damage_named(what: str, *, topic: str, where: str, hint: str = "") -> Iterator[None]:
    """Around code that takes values of an untrusted file apart: whatever does not fit is damage."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as problem:
        why = f"no {problem}" if isinstance(problem, KeyError) else shorten(str(problem))
        raise UserError(f"{what} is damaged ({why})", topic=topic, where=where, hint=hint) from None
    except RuntimeError as problem:  # torch's, of shapes and sizes
        why = str(problem).partition("\n")[0]
        raise UserError(f"{what} is damaged ({why})", topic=topic, where=where, hint=hint) from None


@contextmanager
def panics_named(*, topic: str, where: str, hint: str) -> Iterator[None]:
    """Around tokenizers: a panic of theirs is no `Exception`, so that nothing would catch it."""
    try:
        yield
    except BaseException as problem:
        if not is_panic(problem):
            raise
        raise UserError(
            f"makes the tokenizers library fail ({str(problem).partition(chr(10))[0]})",
            topic=topic,
            where=where,
            hint=hint,
        ) from None


def is_panic(problem: BaseException) -> bool:
    """Whether an exception is a panic of a library in Rust, whose class has no public name."""
    return type(problem).__name__ == "PanicException"
