"""Limits on tokenizers of others: ids, growth of texts, and panics of the library that reads them.

A tokenizer.json is a small program: a normaliser may double a text, thirty of them multiply it by a
billion, and a regular expression may make the library panic, which no `except Exception` catches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tokenizers

from regard.core.untrusted import check_depth, parse_json

MAX_GROWTH = 64
"Of a text by all replacements of a tokenizer; GPT-2's bytes become up to two characters."
MAX_VOCABULARY = 1 << 24
"Ids of a tokenizer: the embedding has a row for each up to the largest."
PROBES = ("\U0010fffd", "a" * 40 + "!", " \u00e9\u0301\n\t" * 8, "0123456789" * 4 + "'s")
"Unknown characters, and repetitions, on which a regular expression backtracks."


def read_engine(text: str) -> tokenizers.Tokenizer:
    """The tokenizer in a tokenizer.json; whatever is wrong with it is a `ValueError`."""
    table = parse_json(text)
    check_depth(table)
    if not isinstance(table, Mapping):
        raise ValueError("no JSON object")
    growth = _growth(table.get("normalizer")) * _growth(table.get("decoder"))
    if growth > MAX_GROWTH:
        raise ValueError(f"its replacements make a text up to {growth:,} times as long")
    with _panics_as_errors():
        engine = tokenizers.Tokenizer.from_str(text)
    check_ids(engine)
    return engine


def check_ids(engine: tokenizers.Tokenizer) -> None:
    largest = max(engine.get_vocab(with_added_tokens=True).values(), default=-1)
    if largest < 0:
        raise ValueError("its vocabulary is empty")
    if largest >= MAX_VOCABULARY:
        raise ValueError(f"an id of {largest:,}; at most {MAX_VOCABULARY:,} have an embedding")


def try_out(engine: tokenizers.Tokenizer) -> None:
    """A file may parse and yet fail on the first text: a `ValueError` says so now."""
    with _panics_as_errors():
        for probe in PROBES:
            ids = engine.encode(probe, add_special_tokens=False).ids
            engine.decode(ids, skip_special_tokens=False)


@contextmanager
def _panics_as_errors() -> Iterator[None]:
    """Every failure of the library as a `ValueError`. It prints panics itself, straight to the
    process's standard error, which is closed for it here."""
    try:
        with _silent_stderr():
            yield
    except BaseException as problem:
        if isinstance(problem, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise ValueError(str(problem).partition("\n")[0]) from None


@contextmanager
def _silent_stderr() -> Iterator[None]:
    try:
        saved = os.dup(2)
    except OSError:  # there is none
        yield
        return
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _growth(part: Any) -> int:
    """By how much a normaliser or decoder may lengthen a text, its replacements one after the
    other."""
    if isinstance(part, list):
        product = 1
        for inner in part:
            product = min(product * _growth(inner), 10**9)
        return product
    if not isinstance(part, Mapping):
        return 1
    if part.get("type") == "Replace":
        return _replacement_growth(part.get("pattern"), part.get("content"))
    return _growth([part.get("normalizers"), part.get("decoders")])


def _replacement_growth(pattern: Any, content: Any) -> int:
    if not isinstance(pattern, Mapping) or not isinstance(content, str):
        return 1
    if isinstance(literal := pattern.get("String"), str) and literal:
        return max(1, -(-len(content) // len(literal)))
    return len(content) + _may_match_nothing(pattern.get("Regex")) or 1


def _may_match_nothing(pattern: Any) -> bool:
    """Whether a regular expression matches between any two characters."""
    try:
        return re.match(str(pattern), "") is not None
    except (re.error, RecursionError, OverflowError):
        return True  # another dialect: assume it
