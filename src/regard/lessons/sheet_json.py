"""Exercise sheets as readable JSON: each matrix row on one line."""

from __future__ import annotations

import json
from typing import Any


def dump_sheet(sheet: dict[str, Any]) -> str:
    """Valid JSON, laid out for people to read and fill in."""
    return _dump(sheet, indent="") + "\n"


def _dump(value: Any, indent: str) -> str:
    inner = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{inner}{json.dumps(key)}: {_dump(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
        return "[\n" + ",\n".join(inner + _dump(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
