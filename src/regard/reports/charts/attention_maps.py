"""Attention as maps: every head of every layer as small multiples, and one head large, with words.

    strength of a cell = √weight, so that 1 of 100 keys is still seen and 1 stands out

The same scale holds in all maps: they can be compared. One row a query, one column a key. Cells of
one strength are one path: 64 heads stay small. Shapes: h heads, i query, j key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.reports.charts.picture import Picture, label, plain, room, shortened
from regard.reports.charts.theme import Theme

Floats = NDArray[np.float64]

LEVELS = 24
"Strengths that are told apart; the eye sees fewer."
FINEST = 96
"Cells a small map has at most in each direction; longer rows show the strongest of several."
MOST_PLACES = 96
"Of a large map; more words than that cannot be read."
MOST_TITLED = 3000
"Cells of a large map that say their value when pointed at, the strongest first."
SMALLEST_MAP, LARGEST_MAP = 72, 150
SMALLEST_CELL, LARGEST_CELL = 10.0, 26.0
LONGEST_LABEL = 16
MARKS = (0.01, 0.05, 0.2, 0.5, 1.0)
"Weights shown in the legend."


def attention_grid(
    weights: Mapping[str, Floats],
    tokens: Sequence[str],
    *,
    theme: Theme,
    width: int,
    title: str = "",
    keys: Sequence[str] | None = None,
) -> Picture:
    """A small map for each head, a row of them for each name; `weights` are (h,i,j) by name.

    `tokens` are the queries, and the keys too unless those are given."""
    gap, drawn, top = 12, [], 0.0
    seen = tokens if keys is None else keys
    most_heads = max(len(heads) for heads in weights.values())
    lines = math.ceil(most_heads / max(1, (width + gap) // (SMALLEST_MAP + gap)))
    columns = math.ceil(most_heads / lines)  # as many on each line, none left alone on the last
    side = min(LARGEST_MAP, (width - gap * (columns - 1)) / columns)
    high = side * min(max(len(tokens) / len(seen), 0.35), 1.5)
    for name, heads in weights.items():
        drawn.append(label(name, 0, top + 13, fill=theme.ink, size=13, bold=True))
        top += 22
        for head, map_ in enumerate(heads):
            x, y = (head % columns) * (side + gap), top + (head // columns) * (high + 26)
            says = f"{name}, head {head}{_strongest(map_, tokens, seen)}"
            drawn.append(label(f"head {head}", x, y + 11, fill=theme.quiet, size=11))
            cells = _cells(pooled(map_, FINEST), theme=theme)
            drawn.append(_framed(cells, (x, y + 16, side, high), theme=theme, says=says))
        top += math.ceil(len(heads) / columns) * (high + 26) + 10
    legend = _legend(theme, top=top, width=width)
    return Picture(width, top + legend.height, "".join(drawn) + legend.elements, title)


def attention_map(
    weights: Floats,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    theme: Theme,
    width: int,
    title: str = "",
) -> Picture:
    """One head, (i,j), with the words beside; wider than `width` where cells would vanish."""
    weights, rows, columns = readable(weights, queries, keys)
    cell = min(LARGEST_CELL, max(SMALLEST_CELL, (width - room(rows, 12) - 18) / len(columns)))
    size = min(12.0, 0.88 * cell)
    left = max(room(rows, size), room(["query ↓"], 11)) + 10
    top = max(room(columns, size) + 10, 36.0)
    wide, high = cell * len(columns), cell * len(rows)
    words = [
        label(
            word, left - 6, top + (i + 0.5) * cell + 0.35 * size, fill=theme.ink, size=size,
            anchor="end",
        )
        for i, word in enumerate(rows)
    ]  # fmt: skip
    words += [
        label(
            word, left + (j + 0.5) * cell + 0.35 * size, top - 6, fill=theme.ink, size=size,
            turned=True,
        )
        for j, word in enumerate(columns)
    ]  # fmt: skip
    words.append(label("query ↓", left - 6, top - 6, fill=theme.quiet, size=11, anchor="end"))
    words.append(label("key →", left - 6, top - 22, fill=theme.quiet, size=11, anchor="end"))
    cells = _titled(_cells(weights, theme=theme), weights, queries, keys)
    framed = _framed(cells, (left, top, wide, high), theme=theme)
    return Picture(max(left + wide + 8, 1), top + high + 4, "".join(words) + framed, title)


def readable(
    weights: Floats, queries: Sequence[str], keys: Sequence[str]
) -> tuple[Floats, list[str], list[str]]:
    """As many places as can be read, (i,j), and their words, none too long."""
    rows, columns = (
        [shortened(one, LONGEST_LABEL) for one in words[:MOST_PLACES]] for words in (queries, keys)
    )
    return weights[:MOST_PLACES, :MOST_PLACES], rows, columns


def pooled(weights: Floats, most: int) -> Floats:
    """(i,j) with at most `most` rows and columns: each cell the strongest of those it stands for.

    The strongest, not the mean: a single sharp line would fade away."""
    for axis in (0, 1):
        size = weights.shape[axis]
        step = -(-size // most)
        if step > 1:
            starts = np.arange(0, size, step)
            top = np.maximum.reduceat(weights, starts, axis=axis)
            low = np.minimum.reduceat(weights, starts, axis=axis)
            weights = np.where(top >= -low, top, low)
    return weights


def strength(weights: Floats) -> NDArray[np.int64]:
    """From 0, not drawn, to LEVELS, full colour; below 0 for weights below 0."""
    sizes = np.sqrt(np.minimum(np.abs(weights), 1.0))
    return (np.sign(weights) * np.round(LEVELS * sizes)).astype(np.int64)


def _cells(weights: Floats, *, theme: Theme) -> tuple[str, int, int]:
    """The cells in units of cells, and how many they are down and across."""
    levels = strength(weights)
    paths: dict[int, list[str]] = {}
    for i, row in enumerate(levels):
        edges = np.flatnonzero(np.diff(row, prepend=row[0] + 1))
        for begin, end in zip(edges, [*edges[1:], len(row)], strict=True):
            if row[begin]:
                run = end - begin
                paths.setdefault(int(row[begin]), []).append(f"M{begin} {i}h{run}v1h-{run}z")
    drawn = [
        f'<path style="fill:{theme.model if level > 0 else theme.test}" '
        f'fill-opacity="{abs(level) / LEVELS:.3g}" d="{"".join(path)}"/>'
        for level, path in sorted(paths.items())
    ]
    return "".join(drawn), *levels.shape


def _framed(
    cells: tuple[str, int, int],
    box: tuple[float, float, float, float],
    *,
    theme: Theme,
    says: str = "",
) -> str:
    """Cells on a faint ground, stretched into a box (x, y, width, height)."""
    inside, down, across = cells
    x, y, width, height = box
    return (
        f'<g transform="translate({x:.1f} {y:.1f}) scale({width / across:.4f} {height / down:.4f})"'
        f' shape-rendering="crispEdges">{f"<title>{plain(says)}</title>" if says else ""}'
        f'<rect width="{across}" height="{down}" style="fill:{theme.grid}" fill-opacity="0.55"/>'
        f"{inside}</g>"
    )


def _titled(
    cells: tuple[str, int, int], weights: Floats, queries: Sequence[str], keys: Sequence[str]
) -> tuple[str, int, int]:
    """Unseen cells over the seen ones, which say their value when pointed at."""
    order = np.argsort(-np.abs(weights), axis=None)[:MOST_TITLED]
    titled = [
        f'<rect x="{j}" y="{i}" width="1" height="1" fill-opacity="0">'
        f"<title>{plain(said(queries[i], keys[j], weights[i, j]))}</title></rect>"
        for i, j in zip(*np.unravel_index(order, weights.shape), strict=True)
        if weights[i, j]
    ]
    return cells[0] + "".join(titled), *cells[1:]


def said(query: str, key: str, weight: float) -> str:
    """`query 'the' → key 'cat': 0.31`"""
    value = f"{weight:.2f}" if abs(weight) >= 0.005 else f"{weight:.1g}"
    return f"query '{query}' → key '{key}': {value}"


def _strongest(weights: Floats, queries: Sequence[str], keys: Sequence[str]) -> str:
    i, j = divmod(int(np.argmax(np.abs(weights))), weights.shape[1])
    return f"; strongest: {said(queries[i], keys[j], weights[i, j])}" if weights[i, j] else ""


def _legend(theme: Theme, *, top: float, width: float) -> Picture:
    """What strengths mean, on one line."""
    drawn, x = [label("weight", 0, top + 10, fill=theme.quiet, size=11)], 46.0
    for mark in MARKS:
        full = strength(np.array([mark]))[0] / LEVELS
        drawn.append(
            f'<rect x="{x}" y="{top}" width="12" height="12" style="fill:{theme.grid}" '
            f'fill-opacity="0.55"/><rect x="{x}" y="{top}" width="12" height="12" '
            f'style="fill:{theme.model}" fill-opacity="{full:.3g}"/>'
        )
        drawn.append(label(f"{mark:g}", x + 16, top + 10, fill=theme.quiet, size=11))
        x += 50
    return Picture(width, 16, "".join(drawn))
