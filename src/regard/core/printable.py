"""Text that is safe to show: control characters are made visible."""

from __future__ import annotations

from typing import Any, TypeVar

AnyJson = TypeVar("AnyJson")


def printable(value: AnyJson) -> AnyJson:
    """JSON with every text safe to show: control characters become `[U+0000]` and the like.

    A model may generate anything: control characters, lone surrogates, which UTF-8 cannot encode,
    and bidirectional overrides, which change what a page seems to say.
    """
    shown: Any = value
    if isinstance(value, str):
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
