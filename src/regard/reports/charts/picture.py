"""Hand-written SVG pictures: elements with a size, for a file, a page, a stack of pictures, or PNG.

With thousands of cells Vega is slow and its SVG large; here a picture is a string. Colours come
from a theme; `PAGE` takes them from the page's CSS variables, so one picture serves light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import vl_convert

from regard.core.printable import escape_unprintable, terminal_width, truncate
from regard.reports.charts.drawing import check_drawing
from regard.reports.charts.theme import FONT, Theme

PAGE = Theme(
    name="page",
    ink="var(--ink)",
    quiet="var(--quiet)",
    grid="var(--line)",
    model="var(--accent)",
    training="var(--accent)",
    test="var(--warn-line)",
    baselines=(),
)
"The colour variables of templates/report.css."
BACKGROUND = {"light": "#ffffff", "dark": "#14171a"}

LETTER_WIDTH = 0.6
"Width of a letter relative to the font size; generous, as the reader's font is unknown."
WIDE_LETTERS = "mwMWOQ@%&—"
"Letters of 1.5 times that width."


@dataclass(frozen=True)
class Picture:
    width: float
    height: float
    elements: str
    title: str = ""

    def svg(self) -> str:
        """One `<svg>` element, valid as a file and inline in HTML."""
        size = f'width="{self.width:.0f}" height="{self.height:.0f}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'aria-label="{escape_xml(self.title)}" {size} viewBox="0 0 '
            f'{self.width:.0f} {self.height:.0f}" font-family="{FONT}">'
            f"{self.elements}</svg>"
        )

    def png(self, *, theme: Theme, scale: float = 2.0, margin: float = 24.0) -> bytes:
        """PNG on the theme's background, `scale` pixels per SVG unit."""
        width, height = self.width + 2 * margin, self.height + 2 * margin
        background = f'<rect width="100%" height="100%" fill="{BACKGROUND[theme.name]}"/>'
        inner = f'<g transform="translate({margin} {margin})">{self.elements}</g>'
        check_drawing()
        png: bytes = vl_convert.svg_to_png(
            Picture(width, height, background + inner, self.title).svg(), scale=scale
        )
        return png


def stack_pictures(pictures: Sequence[Picture], *, gap: float, title: str = "") -> Picture:
    """Pictures below one another, left-aligned."""
    groups, top = [], 0.0
    for picture in pictures:
        groups.append(f'<g transform="translate(0 {top:.1f})">{picture.elements}</g>')
        top += picture.height + gap
    width = max((picture.width for picture in pictures), default=0.0)
    return Picture(width, max(top - gap, 0.0), "".join(groups), title)


def text_line(text: str, *, theme: Theme, width: float, size: float = 13) -> Picture:
    """A line of text, truncated to the width of the picture."""
    shown = truncate(text, int(width / (LETTER_WIDTH * size)))
    height = round(1.5 * size)
    return Picture(width, height, label(shown, 0, 1.1 * size, fill=theme.ink, size=size, bold=True))


def label(
    text: str,
    x: float,
    y: float,
    *,
    fill: str,
    size: float = 12,
    anchor: str = "start",
    rotated: bool = False,
    bold: bool = False,
) -> str:
    """A `<text>` element; `rotated` reads upwards."""
    position = f'transform="translate({x:.1f} {y:.1f}) rotate(-90)"'
    if not rotated:
        position = f'x="{x:.1f}" y="{y:.1f}"'
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text {position} fill="{fill}" font-size="{size:.1f}" text-anchor="{anchor}"'
        f"{weight}>{escape_xml(text)}</text>"
    )


def escape_xml(text: str) -> str:
    """Untrusted text for SVG: markup escaped, characters that XML forbids as escape sequences."""
    return escape(escape_unprintable(text))


def text_width(texts: Sequence[str], size: float) -> float:
    """Estimated pixels of the longest text."""

    def letters(text: str) -> float:
        return terminal_width(text) + 0.5 * sum(map(text.count, WIDE_LETTERS))

    return LETTER_WIDTH * size * max(map(letters, texts), default=0.0)
