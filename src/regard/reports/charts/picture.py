"""A picture drawn by own code: SVG elements with a size, to stand alone, above others, or as PNG.

Where there are thousands of cells a chart grammar is slow and its SVG large; here a picture is a
string. Colours are those of a theme; `PAGE` takes them from the page's style sheet instead, so one
picture serves light and dark.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import vl_convert

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
"The colours of templates/report.css."
PAPER = {"light": "#ffffff", "dark": "#14171a"}

LETTER = 0.6
"Width of a letter for each pixel of its height, generously: the reader's font is unknown."
BROAD = "mwMWOQ@%&—"
"Letters that take half as much again."


@dataclass(frozen=True)
class Picture:
    width: float
    height: float
    elements: str
    title: str = ""

    def svg(self) -> str:
        """One `<svg>` element; alone in a file it is a picture, and in a page it is one too."""
        size = f'width="{self.width:.0f}" height="{self.height:.0f}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{plain(self.title)}" '
            f'{size} viewBox="0 0 {self.width:.0f} {self.height:.0f}" font-family="{FONT}">'
            f"{self.elements}</svg>"
        )

    def png(self, *, theme: Theme, scale: float = 2.0, margin: float = 24.0) -> bytes:
        """On paper of the theme's colour, with `scale` pixels for each of its own."""
        width, height = self.width + 2 * margin, self.height + 2 * margin
        paper = f'<rect width="100%" height="100%" fill="{PAPER[theme.name]}"/>'
        inner = f'<g transform="translate({margin} {margin})">{self.elements}</g>'
        drawn: bytes = vl_convert.svg_to_png(
            Picture(width, height, paper + inner, self.title).svg(), scale=scale
        )
        return drawn


def stacked(pictures: Sequence[Picture], *, gap: float, title: str = "") -> Picture:
    """Pictures below one another, flush left."""
    inside, top = [], 0.0
    for picture in pictures:
        inside.append(f'<g transform="translate(0 {top:.1f})">{picture.elements}</g>')
        top += picture.height + gap
    width = max((picture.width for picture in pictures), default=0.0)
    return Picture(width, max(top - gap, 0.0), "".join(inside), title)


def line_of_text(text: str, *, theme: Theme, width: float, size: float = 13) -> Picture:
    """A line, cut where it would be wider than the picture."""
    shown = shortened(text, int(width / (LETTER * size)))
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
    turned: bool = False,
    bold: bool = False,
) -> str:
    """A piece of text; `turned` reads upwards."""
    place = f'transform="translate({x:.1f} {y:.1f}) rotate(-90)"'
    if not turned:
        place = f'x="{x:.1f}" y="{y:.1f}"'
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text {place} style="fill:{fill}" font-size="{size:.1f}" text-anchor="{anchor}"'
        f"{weight}>{plain(text)}</text>"
    )


def plain(text: str) -> str:
    """Text from anywhere, fit for SVG: no markup, and no character that XML forbids."""
    return escape("".join(one if one.isprintable() else _written_out(one) for one in text))


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def room(texts: Sequence[str], size: float) -> float:
    """Pixels that the longest text takes."""

    def letters(text: str) -> float:
        wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
        return len(text) + wide + 0.5 * sum(text.count(one) for one in BROAD)

    return LETTER * size * max(map(letters, texts), default=0.0)
