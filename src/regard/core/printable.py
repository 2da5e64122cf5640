"""Text that is safe to show, and short enough: control characters visible, long texts cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, TypeVar

AnyJson = TypeVar("AnyJson")


def printable(value: AnyJson) -> AnyJson:
    """JSON with every text safe to show: control characters become `[U+0000]` and the like.

    A model may generate anything: control characters, lone surrogates, which UTF-8 cannot encode,
    and bidirectional overrides, which change what a page seems to say.
    """
    shown: Any = value
    if isinstance(value, str):
        if not _CHANGED.search(value):  # nearly every text, and there are many
            return value
        # Through UTF-16, surrogate pairs become the character they encode.
        text = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        shown = text.replace("\r\n", "\n").translate(_SHOWN)
    elif isinstance(value, list):
        shown = [printable(item) for item in value]
    elif isinstance(value, dict):
        shown = {printable(key): printable(item) for key, item in value.items()}
    result: AnyJson = shown
    return result


_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_DIRECTIONS = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_SHOWN = {code: f"[U+{code:04X}]" for code in _CONTROLS | _DIRECTIONS}
_SURROGATES = "\ud800-\udfff"
_CHANGED = re.compile(f"[{re.escape(''.join(map(chr, sorted(_SHOWN))))}{_SURROGATES}]")
"Whatever `printable` would change; \\r\\n too, for it has a control character."


def escape_unprintable(text: str) -> str:
    """Line breaks and other control characters as escape sequences: `\\n`, `\\x1b`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def truncate(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else text[: max(max_length - 1, 0)] + "…"


def first_few(names: Sequence[str], count: int) -> str:
    """`a, b, c, …`"""
    return ", ".join(names[:count]) + (", …" if len(names) > count else "")


def terminal_width(text: str) -> int:
    """Columns of a terminal that the text takes: wide characters take two, accents none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
