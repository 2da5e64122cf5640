"""A sheet as text: JSON in which a row of numbers stands on one line, as one writes a matrix."""

from __future__ import annotations

import json
from typing import Any


def sheet_text(sheet: dict[str, Any]) -> str:
    """Valid JSON, to be read and filled in by people."""
    return _text(sheet, indent="") + "\n"


def _text(value: Any, indent: str) -> str:
    inner = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{inner}{json.dumps(key)}: {_text(one, inner)}" for key, one in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, list | dict) for one in value):
        return "[\n" + ",\n".join(inner + _text(one, inner) for one in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
