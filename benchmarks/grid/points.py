"""The grid: shapes of decoders and batches, and a draw of them by a seed."""

from __future__ import annotations

import random
from itertools import product

from benchmarks.speed.sizes import Size

WIDTHS = (32, 64, 128, 256, 384, 512)
TOKENS = (256, 512, 1_024, 2_048, 4_096, 8_192, 16_384)
"Per step."
VOCABULARIES = (65, 8_192, 50_304)
CONTEXTS = (64, 128, 256, 512, 1_024)
LAYERS = {32: 2, 64: 3, 128: 4, 256: 4, 384: 6, 512: 6}
HEADS = {32: 2, 64: 2, 128: 4, 256: 4, 384: 6, 512: 8}
"By width; head widths of 16, 32 and 64."
MAX_OPERATIONS = 0.3e12
"Of one step, so that a grid takes minutes."
POINTS = 24

NANOGPT = Size("nanoGPT on a CPU", 128, 4, 4, 65, rows=12, positions=64)
"The recipe that nanoGPT documents for CPUs; it stands beside the grid, in no mean."


def draw_points(seed: int, count: int = POINTS) -> list[Size]:
    """Points of the grid, without repetition."""
    return random.Random(seed).sample(all_points(), count)


def all_points() -> list[Size]:
    grid = product(WIDTHS, TOKENS, VOCABULARIES, CONTEXTS)
    sizes = [_size(*point) for point in grid if point[1] >= point[3]]
    return [size for size in sizes if size.step_operations <= MAX_OPERATIONS]


def _size(width: int, tokens: int, vocabulary: int, context: int) -> Size:
    return Size(
        f"width {width}, vocabulary {vocabulary}, {tokens // context} × {context} tokens",
        width,
        LAYERS[width],
        HEADS[width],
        vocabulary,
        rows=tokens // context,
        positions=context,
    )
