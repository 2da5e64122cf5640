"""Vega's engine, which draws charts as SVG and PNG, and what it takes of a process.

The engine reserves tens of gigabytes of addresses, though it uses little memory. Where a process
may not have that many (`ulimit -v`, some batch systems) the engine ends the whole process, and with
it the command that had just finished a training: it is asked first.
"""

from __future__ import annotations

from regard.core.errors import UserError
from regard.core.process.address_limit import address_limit

ADDRESSES_NEEDED = 64 << 30
"Drawing was seen to fail with 48 GB, and to work with 70 GB."


def check_drawing() -> None:
    """Raise if charts cannot be drawn in this process."""
    limit = address_limit()
    if limit is not None and limit < ADDRESSES_NEEDED:
        raise UserError(
            f"charts are not drawn: this process may address {limit / 2**30:,.1f} GB "
            f"(ulimit -v), and drawing reserves {ADDRESSES_NEEDED >> 30}",
            topic="report",
            hint="Raise the limit (ulimit -v unlimited) and write the report again: regard report.",
        )
