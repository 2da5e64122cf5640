"""One attention head as lines between tokens: queries on the left, keys on the right.

    width of a line = weight        Vig, 2019 (the attention-head view of BertViz)

The lines of one query form one group, so that a page can highlight them on hover.
Shapes: i query, j key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.reports.charts.attention_maps import truncate_tokens, weight_text
from regard.reports.charts.picture import Picture, escape_xml, label, text_width
from regard.reports.charts.theme import Theme

Floats = NDArray[np.float64]

MIN_WEIGHT = 0.03
"Weights below it have no line."
MAX_LINE_WIDTH = 9.0
"Pixels of a line of weight 1."
MAX_COLUMN_GAP = 300
"Maximum pixels between the two columns."
HEADING_HEIGHT = 24.0


def attention_lines(
    weights: Floats,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    theme: Theme,
    width: int,
    title: str = "",
) -> Picture:
    """The lines of one head, (i,j)."""
    weights, query_labels, key_labels = truncate_tokens(weights, queries, keys)
    longest = max(len(query_labels), len(key_labels))
    size, step = 12.5, 22.0 if longest <= 40 else 18.0
    query_width = text_width(["query", *query_labels], size)
    key_width = text_width(["key", *key_labels], size)
    gap = min(MAX_COLUMN_GAP, max(90.0, width - (query_width + key_width) - 20))
    left, right = query_width + 8, query_width + 8 + gap

    def y(row: int) -> float:
        return HEADING_HEIGHT + (row + 0.5) * step

    groups = []
    for i, token in enumerate(query_labels):
        lines = "".join(
            _line(
                (left + 4, y(i)),
                (right - 4, y(j)),
                weights[i, j],
                theme=theme,
                tooltip=weight_text(queries[i], keys[j], weights[i, j]),
            )
            for j in np.flatnonzero(np.abs(weights[i]) >= MIN_WEIGHT).tolist()
        )
        text = label(token, left, y(i) + 4, fill=theme.ink, size=size, anchor="end")
        groups.append(f'<g class="query">{lines}{text}</g>')
    headings = label("query", left, 12, fill=theme.quiet, size=11, anchor="end")
    headings += label("key", right, 12, fill=theme.quiet, size=11)
    tokens = "".join(
        label(token, right, y(j) + 4, fill=theme.ink, size=size)
        for j, token in enumerate(key_labels)
    )
    bottom = HEADING_HEIGHT + step * longest
    return Picture(right + key_width + 8, bottom, headings + tokens + "".join(groups), title)


def _line(
    begin: tuple[float, float],
    end: tuple[float, float],
    weight: float,
    *,
    theme: Theme,
    tooltip: str,
) -> str:
    (x, y), (to_x, to_y) = begin, end
    half = (x + to_x) / 2
    size = min(abs(weight), 1.0)
    return (
        f'<path d="M{x:.1f} {y:.1f}C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"'
        f' fill="none" stroke="{theme.model if weight > 0 else theme.test}"'
        f' stroke-width="{MAX_LINE_WIDTH * size:.2f}" stroke-opacity="{0.3 + 0.5 * size:.2f}">'
        f"<title>{escape_xml(tooltip)}</title></path>"
    )
