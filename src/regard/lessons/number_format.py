"""How numbers of a lesson are written: short, with four digits, tiny ones as powers of ten."""

from __future__ import annotations

import math
from typing import Any

from regard.lessons.lesson import Check

SIGNS = {"near": "=", "equal": "=", "below": "≤", "above": "≥"}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LONGEST = 60
"Letters of a list before it is cut."


def written(value: Any, *, digits: int = 4) -> str:
    """`0.2282`, `1,024`, `3.1·10⁻⁷`, `(1, 2, 3)`, `yes`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, float):
        return _decimal(value, digits)
    if isinstance(value, list | tuple):
        inside = ", ".join(written(one, digits=digits) for one in value)
        return f"({inside if len(inside) <= LONGEST else inside[: LONGEST - 1] + '…'})"
    return str(value)


def _decimal(value: float, digits: int) -> str:
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and not 1e-3 <= size < 1e6:
        # By way of text: 10.0**−324 is nought, and 9.96 must not become "10·10⁻⁷".
        factor, power = f"{value:.1e}".split("e")
        shown = f"{float(factor):g}·10{str(int(power)).translate(SUPERSCRIPTS)}"
        shown = shown.removeprefix("1·") if value > 0 else shown.replace("-1·", "-")
        return shown.replace("-", "−")
    positions = max(digits - 1 - math.floor(math.log10(size)), 0) if size else 0
    shown = f"{value:,.{positions}f}"
    if "." in shown:
        shown = shown.rstrip("0").rstrip(".")
    return (shown if shown != "-0" else "0").replace("-", "−")


def measured(check: Check) -> str:
    """As many digits as it takes to see that it is near, and by how much it misses."""
    if check.relation != "near":
        return written(check.measured)
    if not isinstance(check.measured, list):
        return written(check.measured, digits=6)
    return written(_without_dust(check.measured, check.tolerance / 100), digits=6)


def _without_dust(value: Any, least: float) -> Any:
    """Where 10⁻⁶ is near enough, 10⁻¹⁴ among other numbers is noise to the eye."""
    if isinstance(value, list):
        return [_without_dust(one, least) for one in value]
    return 0.0 if abs(value) < least else value


def expected(check: Check) -> str:
    """`= 1 ± 10⁻⁶`, `≤ 0.01`, `= (3, 2, −4)`."""
    wanted = check.expected
    if check.relation == "near":
        wanted = _without_dust(wanted, check.tolerance / 1000)
    said = f"{SIGNS[check.relation]} {written(wanted, digits=6)}"
    if check.relation != "near" or not check.tolerance:
        return said
    return f"{said} ± {written(check.tolerance)}"
