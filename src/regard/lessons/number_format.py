"""Format a lesson's numbers: four digits, small and large ones in scientific notation."""

from __future__ import annotations

import math
from typing import Any

from regard.core.printable import truncate
from regard.lessons.lesson import Check

SIGNS = {"near": "=", "equal": "=", "below": "≤", "above": "≥"}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MAX_LIST_LENGTH = 60
"Characters of a list; a longer one is truncated."


def format_value(value: Any, *, digits: int = 4) -> str:
    """`0.2282`, `1,024`, `3.1·10⁻⁷`, `(1, 2, 3)`, `yes`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, float):
        return _decimal(value, digits)
    if isinstance(value, list | tuple):
        items = ", ".join(format_value(item, digits=digits) for item in value)
        return f"({truncate(items, MAX_LIST_LENGTH)})"
    return str(value)


def _decimal(value: float, digits: int) -> str:
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and not 1e-3 <= size < 1e6:
        # Through Python's own format: 10.0**−324 underflows, and 9.96 must not become "10·10⁻⁷".
        factor, power = f"{value:.1e}".split("e")
        text = f"{float(factor):g}·10{str(int(power)).translate(SUPERSCRIPTS)}"
        text = text.removeprefix("1·") if value > 0 else text.replace("-1·", "-")
        return text.replace("-", "−")
    decimals = max(digits - 1 - math.floor(math.log10(size)), 0) if size else 0
    text = f"{value:,.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return (text if text != "-0" else "0").replace("-", "−")


def format_measured(check: Check) -> str:
    """The measured value, with more digits where it is compared within a tolerance."""
    if check.relation != "near":
        return format_value(check.measured)
    if not isinstance(check.measured, list):
        return format_value(check.measured, digits=6)
    return format_value(_flush_to_zero(check.measured, check.tolerance / 100), digits=6)


def _flush_to_zero(value: Any, threshold: float) -> Any:
    """Zero for magnitudes below the threshold: 10⁻¹⁴ is noise where the tolerance is 10⁻⁶."""
    if isinstance(value, list):
        return [_flush_to_zero(item, threshold) for item in value]
    return 0.0 if abs(value) < threshold else value


def format_expected(check: Check) -> str:
    """`= 1 ± 10⁻⁶`, `≤ 0.01`, `= (3, 2, −4)`."""
    value = check.expected
    if check.relation == "near":
        value = _flush_to_zero(value, check.tolerance / 1000)
    text = f"{SIGNS[check.relation]} {format_value(value, digits=6)}"
    if check.relation != "near" or not check.tolerance:
        return text
    return f"{text} ± {format_value(check.tolerance)}"
