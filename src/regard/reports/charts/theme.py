"""How charts look: colours for light and dark paper, axes, legends, and the final dress.

The colours can be told apart without red and green, and against their paper each has a contrast
of at least 3 to 1. A name keeps its colour in every chart of a report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import altair as alt

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"


@dataclass(frozen=True)
class Theme:
    name: str
    ink: str
    quiet: str
    grid: str
    model: str
    training: str
    test: str
    baselines: tuple[str, ...]

    @property
    def colours(self) -> tuple[str, ...]:
        return (
            self.ink, self.quiet, self.grid, self.model, self.training, self.test, *self.baselines
        )  # fmt: skip

    def palette(self, names: Iterable[str]) -> alt.Scale:
        """A colour for each name: fixed for what regard knows, in order for other baselines."""
        names = list(names)
        fixed = {
            "model": self.model,
            "dev loss": self.model,
            "training loss": self.training,
            "train": self.training,
            "dev": self.model,
            "test": self.test,
            "unigram": self.quiet,
        }
        free = [name for name in names if name not in fixed]
        fixed |= {name: self.baselines[i % len(self.baselines)] for i, name in enumerate(free)}
        return alt.Scale(domain=names, range=[fixed[name] for name in names])


LIGHT = Theme(
    name="light",
    ink="#1b1f24",
    quiet="#5f6873",
    grid="#e7e9ec",
    model="#005f9e",
    training="#5c9fd0",
    test="#b35000",
    baselines=("#b35000", "#00735c", "#8a4a83"),
)
DARK = Theme(
    name="dark",
    ink="#e6e8eb",
    quiet="#a3abb5",
    grid="#2b3138",
    model="#8ccbfa",
    training="#4a8dc0",
    test="#f2a65a",
    baselines=("#f2a65a", "#58c9a8", "#d8a0cf"),
)


def in_dark(svg: str) -> str | None:
    """What Vega drew for LIGHT as it draws it for DARK: to draw it again would take ten times as
    long. None where a colour is not the theme's own, such as a shade between two."""
    dark = dict(zip(LIGHT.colours, DARK.colours, strict=True)) | UNTHEMED

    def repainted(tag: re.Match[str]) -> str:
        return PAINT.sub(lambda found: found[1] + dark[found[2]], tag[0])

    try:
        return TAG.sub(repainted, svg)
    except KeyError:
        return None


TAG = re.compile(r'<(?:[^<>"]|"[^"]*")*>')
PAINT = re.compile(r'( (?:fill|stroke)=")([^"]*)')
UNTHEMED = {one: one for one in ("none", "black", "#4c78a8")}
"No paint, and what Vega paints where a chart names no colour."


def step_axis(width: int) -> alt.Axis:
    return alt.Axis(format=",d", tickCount=max(width // 110, 3), grid=False)


def value_axis(width: int) -> alt.Axis:
    """A horizontal axis of figures, with room for each number."""
    return alt.Axis(labelOverlap="greedy", tickCount=max(width // 90, 3))


def level_axis(*, ticks: int = 6, format: str = "~g") -> alt.Axis:
    """A vertical axis of one fixed width, so that charts above one another line up."""
    return alt.Axis(tickCount=ticks, format=format, minExtent=52, maxExtent=52, domain=False)


def name_room(names: Iterable[str], *, width: int) -> int:
    """Pixels for the longest name. The reader's font is unknown, hence a generous estimate."""
    return min(8 * max(map(len, names)) + 12, 2 * width // 5)


def label_room(labels: Iterable[str], *, width: int) -> int:
    """Pixels for the longest label at the end of a bar; at most half of the axis."""
    return min(8 * max(map(len, labels)) + 15, width // 2)


def name_axis(extent: int) -> alt.Axis:
    """Names that start at the left edge and take `extent` pixels."""
    return alt.Axis(
        domain=False,
        ticks=False,
        labelFontSize=13,
        labelAlign="left",
        labelPadding=extent,
        labelLimit=extent,
        minExtent=extent,
        maxExtent=extent,
    )


def legend(width: int) -> alt.Legend:
    """Above the chart; on a narrow one the names stand below one another."""
    return alt.Legend(
        orient="top",
        title=None,
        symbolType="stroke",
        symbolSize=220,
        symbolOpacity=1,
        columnPadding=32,
        columns=1 if width < 480 else 0,
        labelLimit=width - 80,
        offset=12,
    )


def magnitude_axis(ticks: list[float], *, grid: bool = True) -> alt.Axis:
    """A logarithmic axis; where labels would touch, some are left out."""
    return alt.Axis(values=ticks, format=",d", grid=grid, labelOverlap="greedy", labelSeparation=8)


def magnitudes(low: float, high: float) -> list[float]:
    """Round values from `low` to `high` for a logarithmic axis: 1, 2, 5, 10, …"""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= 4 else (1,)
    marks = [step * 10.0**power for power in powers for step in steps]
    return [mark for mark in marks if low <= mark <= high]


Chart = alt.Chart | alt.LayerChart | alt.FacetChart


def dressed(chart: Chart, *, theme: Theme, size: tuple[int, int]) -> Chart:
    """The chart at its whole size (axes and legend included), in the theme's colours."""
    width, height = size
    # All in one call: Altair copies the whole chart, its data too, for each.
    return chart.properties(
        width=width,
        height=height,
        autosize=alt.AutoSizeParams(type="fit", contains="padding"),
        config=_config(theme),
    )


def _config(theme: Theme) -> alt.Config:
    # The page describes each chart in words: Vega's own labels would only repeat the data.
    return alt.Config(
        background="transparent",
        font=FONT,
        aria=False,
        padding=2,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelColor=theme.quiet,
            titleColor=theme.quiet,
            titleFontWeight="normal",
            titlePadding=10,
            labelFontSize=12,
            titleFontSize=12,
            gridColor=theme.grid,
            domainColor=theme.grid,
            tickColor=theme.grid,
        ),
        axisY=alt.AxisConfig(labelColor=theme.ink),
        legend=alt.LegendConfig(labelColor=theme.ink, labelFontSize=12, symbolStrokeWidth=2),
    )
