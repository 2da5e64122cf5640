"""Numbers as people write them in tables: 3.5 and 3,5."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")
"May be a decimal number or a whole one: neither is believed."


def has_decimal_comma(column: Iterable[Any]) -> bool:
    """Whether a value of the column, such as 0,5, says that its commas are decimal: 1,234 too."""
    texts = (value.strip() for value in column if isinstance(value, str))
    return any(DECIMAL_COMMA.fullmatch(one) and not THOUSANDS.fullmatch(one) for one in texts)


def parse_number(value: Any) -> float | None:
    """The finite number that a cell holds; None if it holds none, or 1,234, which may be two."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str):
        value = value.strip()
        if DECIMAL_COMMA.fullmatch(value) and not THOUSANDS.fullmatch(value):
            value = value.replace(",", ".")
        elif "_" in value:  # Python's own 1_000
            return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
