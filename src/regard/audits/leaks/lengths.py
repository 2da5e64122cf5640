"""Lengths at which a model is probed: its limit, and multiples of 2, 3, 4, 8, 16 and 64 with their
neighbours.

Masks are built in blocks, tables are padded to powers of two, loops end one step early: a leak can
show at some lengths only.
"""

from __future__ import annotations

MAX_LENGTH = 1024
"Attention grows with the square of the length."
SHORT = 17
"Every length up to this one is tried."
BLOCKS = (64, 32, 128, 48, 24, 96, 256)
"Further multiples; each is tried with its neighbours, the first ones first."


def probe_lengths(limit: int) -> list[int]:
    """The lengths to probe, the most telling first."""
    limit = min(limit, MAX_LENGTH)
    blocks = [length for block in BLOCKS for length in (block, block + 1, block - 1)]
    wanted = [limit, limit - 1, 16, *range(2, SHORT + 1), *blocks]
    return list(dict.fromkeys(length for length in wanted if 2 <= length <= limit))
