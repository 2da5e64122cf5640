"""One head as lines between words: each query on the left, the keys it looks at on the right.

    width of a line = weight        Vig, 2019 (the attention-head view of BertViz)

Lines of one query are one group, so that a page can bring them forward when it is pointed at.
Shapes: i query, j key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.reports.charts.attention_maps import readable, said
from regard.reports.charts.picture import Picture, label, plain, room
from regard.reports.charts.theme import Theme

Floats = NDArray[np.float64]

FAINTEST = 0.03
"A weight below it has no line."
BROADEST = 9.0
"Pixels of the line of weight 1."
ACROSS = 300
"Pixels between the two columns, at most."
HEADING = 24.0


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
    weights, asking, asked = readable(weights, queries, keys)
    size, step = 12.5, 22.0 if max(len(asking), len(asked)) <= 40 else 18.0
    beside = room(["query", *asking], size), room(["key", *asked], size)
    across = min(ACROSS, max(90.0, width - sum(beside) - 20))
    left, right = beside[0] + 8, beside[0] + 8 + across

    def height(place: int) -> float:
        return HEADING + (place + 0.5) * step

    groups = []
    for i, word in enumerate(asking):
        lines = "".join(
            _line(
                (left + 4, height(i)),
                (right - 4, height(j)),
                weights[i, j],
                theme=theme,
                says=said(queries[i], keys[j], weights[i, j]),
            )
            for j in np.flatnonzero(np.abs(weights[i]) >= FAINTEST).tolist()
        )
        text = label(word, left, height(i) + 4, fill=theme.ink, size=size, anchor="end")
        groups.append(f'<g class="looks">{lines}{text}</g>')
    heads = label("query", left, 12, fill=theme.quiet, size=11, anchor="end")
    heads += label("key", right, 12, fill=theme.quiet, size=11)
    words = "".join(
        label(word, right, height(j) + 4, fill=theme.ink, size=size) for j, word in enumerate(asked)
    )
    bottom = HEADING + step * max(len(asking), len(asked))
    return Picture(right + beside[1] + 8, bottom, heads + words + "".join(groups), title)


def _line(
    begin: tuple[float, float],
    end: tuple[float, float],
    weight: float,
    *,
    theme: Theme,
    says: str,
) -> str:
    (x, y), (to_x, to_y) = begin, end
    half = (x + to_x) / 2
    size = min(abs(weight), 1.0)
    return (
        f'<path d="M{x:.1f} {y:.1f}C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"'
        f' fill="none" style="stroke:{theme.model if weight > 0 else theme.test}"'
        f' stroke-width="{BROADEST * size:.2f}" stroke-opacity="{0.3 + 0.5 * size:.2f}">'
        f"<title>{plain(says)}</title></path>"
    )
