"""Attention maps: every head of every layer as small multiples, and one head large, with tokens.

    opacity of a cell = √weight, so that a weight of 0.01 is visible and a weight of 1 stands out

All maps share one scale and are comparable. Rows are queries, columns are keys. Cells of one colour
level form one path, which keeps 64 heads small. Shapes: h heads, i query, j key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.core.printable import truncate
from regard.reports.charts.picture import Picture, escape_xml, label, text_width
from regard.reports.charts.theme import Theme

Floats = NDArray[np.float64]

LEVELS = 24
"Distinct opacities; the eye distinguishes fewer."
MAX_GRID_CELLS = 96
"Maximum rows and columns of a small map; longer sequences are pooled to the strongest weight."
MAX_TOKENS = 96
"Maximum rows and columns of a large map; more labels are unreadable."
MAX_TOOLTIPS = 3000
"Maximum cells of a large map with a tooltip, the strongest first."
MIN_MAP_SIZE, MAX_MAP_SIZE = 72, 150
MIN_CELL_SIZE, MAX_CELL_SIZE = 10.0, 26.0
MAX_LABEL_LENGTH = 16
LEGEND_WEIGHTS = (0.01, 0.05, 0.2, 0.5, 1.0)
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
    """A small map for each head, a row of maps for each layer; `weights` are (h,i,j) by layer name.

    `tokens` are the queries, and also the keys unless `keys` is given."""
    gap, drawn, top = 12, [], 0.0
    keys = tokens if keys is None else keys
    max_heads = max(len(heads) for heads in weights.values())
    lines = math.ceil(max_heads / max(1, (width + gap) // (MIN_MAP_SIZE + gap)))
    columns = math.ceil(max_heads / lines)  # balanced lines: no single map on the last
    side = min(MAX_MAP_SIZE, (width - gap * (columns - 1)) / columns)
    height = side * min(max(len(tokens) / len(keys), 0.35), 1.5)
    for name, heads in weights.items():
        drawn.append(label(name, 0, top + 13, fill=theme.ink, size=13, bold=True))
        top += 22
        for head, map_ in enumerate(heads):
            x, y = (head % columns) * (side + gap), top + (head // columns) * (height + 26)
            tooltip = f"{name}, head {head}{_strongest(map_, tokens, keys)}"
            drawn.append(label(f"head {head}", x, y + 11, fill=theme.quiet, size=11))
            cells = _cells(pool_strongest(map_, MAX_GRID_CELLS), theme=theme)
            box = (x, y + 16, side, height)
            drawn.append(_place_cells(cells, box, theme=theme, tooltip=tooltip))
        top += math.ceil(len(heads) / columns) * (height + 26) + 10
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
    """One head, (i,j), with its tokens; wider than `width` if cells would be too small."""
    weights, rows, columns = truncate_tokens(weights, queries, keys)
    cell = min(
        MAX_CELL_SIZE, max(MIN_CELL_SIZE, (width - text_width(rows, 12) - 18) / len(columns))
    )
    size = min(12.0, 0.88 * cell)
    left = max(text_width(rows, size), text_width(["query ↓"], 11)) + 10
    top = max(text_width(columns, size) + 10, 36.0)
    map_width, map_height = cell * len(columns), cell * len(rows)
    labels = [
        label(
            token, left - 6, top + (i + 0.5) * cell + 0.35 * size, fill=theme.ink, size=size,
            anchor="end",
        )
        for i, token in enumerate(rows)
    ]  # fmt: skip
    labels += [
        label(
            token, left + (j + 0.5) * cell + 0.35 * size, top - 6, fill=theme.ink, size=size,
            rotated=True,
        )
        for j, token in enumerate(columns)
    ]  # fmt: skip
    labels.append(label("query ↓", left - 6, top - 6, fill=theme.quiet, size=11, anchor="end"))
    labels.append(label("key →", left - 6, top - 22, fill=theme.quiet, size=11, anchor="end"))
    cells = _with_tooltips(_cells(weights, theme=theme), weights, queries, keys)
    map_ = _place_cells(cells, (left, top, map_width, map_height), theme=theme)
    return Picture(
        max(left + map_width + 8, 1), top + map_height + 4, "".join(labels) + map_, title
    )


def truncate_tokens(
    weights: Floats, queries: Sequence[str], keys: Sequence[str]
) -> tuple[Floats, list[str], list[str]]:
    """The first MAX_TOKENS rows and columns, (i,j), and their truncated labels."""
    rows, columns = (
        [truncate(token, MAX_LABEL_LENGTH) for token in tokens[:MAX_TOKENS]]
        for tokens in (queries, keys)
    )
    return weights[:MAX_TOKENS, :MAX_TOKENS], rows, columns


def pool_strongest(weights: Floats, max_size: int) -> Floats:
    """(i,j) pooled to at most `max_size` rows and columns, by largest absolute value.

    Not the mean: a single sharp line would fade away."""
    for axis in (0, 1):
        size = weights.shape[axis]
        step = -(-size // max_size)
        if step > 1:
            starts = np.arange(0, size, step)
            high = np.maximum.reduceat(weights, starts, axis=axis)
            low = np.minimum.reduceat(weights, starts, axis=axis)
            weights = np.where(high >= -low, high, low)
    return weights


def colour_level(weights: Floats) -> NDArray[np.int64]:
    """From 0 (not drawn) to LEVELS (opaque); negative for negative weights."""
    opacities = np.sqrt(np.minimum(np.abs(weights), 1.0))
    return (np.sign(weights) * np.round(LEVELS * opacities)).astype(np.int64)


def _cells(weights: Floats, *, theme: Theme) -> tuple[str, int, int]:
    """Paths of the cells, one unit per cell, and the number of rows and columns."""
    levels = colour_level(weights)
    paths: dict[int, list[str]] = {}
    for i, row in enumerate(levels):
        edges = np.flatnonzero(np.diff(row, prepend=row[0] + 1))
        for begin, end in zip(edges, [*edges[1:], len(row)], strict=True):
            if row[begin]:
                run = end - begin
                paths.setdefault(int(row[begin]), []).append(f"M{begin} {i}h{run}v1h-{run}z")
    drawn = [
        f'<path fill="{theme.model if level > 0 else theme.test}" '
        f'fill-opacity="{abs(level) / LEVELS:.3g}" d="{"".join(path)}"/>'
        for level, path in sorted(paths.items())
    ]
    return "".join(drawn), *levels.shape


def _place_cells(
    cells: tuple[str, int, int],
    box: tuple[float, float, float, float],
    *,
    theme: Theme,
    tooltip: str = "",
) -> str:
    """Cells on a faint background, scaled into a box (x, y, width, height)."""
    paths, rows, columns = cells
    x, y, width, height = box
    title = f"<title>{escape_xml(tooltip)}</title>" if tooltip else ""
    return (
        f'<g transform="translate({x:.1f} {y:.1f}) '
        f'scale({width / columns:.4f} {height / rows:.4f})"'
        f' shape-rendering="crispEdges">{title}'
        f'<rect width="{columns}" height="{rows}" fill="{theme.grid}" fill-opacity="0.55"/>'
        f"{paths}</g>"
    )


def _with_tooltips(
    cells: tuple[str, int, int], weights: Floats, queries: Sequence[str], keys: Sequence[str]
) -> tuple[str, int, int]:
    """Cells under transparent rectangles with tooltips."""
    order = np.argsort(-np.abs(weights), axis=None)[:MAX_TOOLTIPS]
    tooltips = [
        f'<rect x="{j}" y="{i}" width="1" height="1" fill-opacity="0">'
        f"<title>{escape_xml(weight_text(queries[i], keys[j], weights[i, j]))}</title></rect>"
        for i, j in zip(*np.unravel_index(order, weights.shape), strict=True)
        if weights[i, j]
    ]
    return cells[0] + "".join(tooltips), *cells[1:]


def weight_text(query: str, key: str, weight: float) -> str:
    """`query 'the' → key 'cat': 0.31`"""
    value = f"{weight:.2f}" if abs(weight) >= 0.005 else f"{weight:.1g}"
    return f"query '{query}' → key '{key}': {value}"


def _strongest(weights: Floats, queries: Sequence[str], keys: Sequence[str]) -> str:
    i, j = divmod(int(np.argmax(np.abs(weights))), weights.shape[1])
    return (
        f"; strongest: {weight_text(queries[i], keys[j], weights[i, j])}" if weights[i, j] else ""
    )


def _legend(theme: Theme, *, top: float, width: float) -> Picture:
    """Opacities and their weights, on one line."""
    drawn, x = [label("weight", 0, top + 10, fill=theme.quiet, size=11)], 46.0
    for weight in LEGEND_WEIGHTS:
        opacity = colour_level(np.array([weight]))[0] / LEVELS
        drawn.append(
            f'<rect x="{x}" y="{top}" width="12" height="12" fill="{theme.grid}" '
            f'fill-opacity="0.55"/><rect x="{x}" y="{top}" width="12" height="12" '
            f'fill="{theme.model}" fill-opacity="{opacity:.3g}"/>'
        )
        drawn.append(label(f"{weight:g}", x + 16, top + 10, fill=theme.quiet, size=11))
        x += 50
    return Picture(width, 16, "".join(drawn))
