"""The look of charts: colours for light and dark backgrounds, axes, legends, Vega config.

The colours are distinguishable with red-green colour blindness, and each has a contrast of at least
3:1 against its background. A name keeps its colour in every chart of a report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

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
        """A colour for each name: fixed for known series, in order for other baselines."""
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


def recolour_for_dark(svg: str) -> str | None:
    """An SVG drawn with LIGHT, recoloured for DARK: 10× faster than drawing it again. None if it
    has a colour outside the theme, such as an interpolated one."""
    dark = dict(zip(LIGHT.colours, DARK.colours, strict=True)) | UNTHEMED

    def recolour(tag: re.Match[str]) -> str:
        return PAINT.sub(lambda paint: paint[1] + dark[paint[2]], tag[0])

    try:
        return TAG.sub(recolour, svg)
    except KeyError:
        return None


TAG = re.compile(r'<(?:[^<>"]|"[^"]*")*>')
PAINT = re.compile(r'( (?:fill|stroke)=")([^"]*)')
UNTHEMED = {colour: colour for colour in ("none", "black", "#4c78a8")}
"No paint, and Vega's defaults where a chart names no colour."


def step_axis(width: int) -> alt.Axis:
    return alt.Axis(format=",d", tickCount=max(width // 110, 3), grid=False)


def value_axis(width: int) -> alt.Axis:
    """A horizontal axis of scores, with space for each label."""
    return alt.Axis(labelOverlap="greedy", tickCount=max(width // 90, 3))


def y_axis(*, ticks: int = 6, format: str = "~g") -> alt.Axis:
    """A vertical axis of fixed width, so that stacked charts align."""
    return alt.Axis(tickCount=ticks, format=format, minExtent=52, maxExtent=52, domain=False)


def name_width(names: Iterable[str], *, width: int) -> int:
    """Pixels for the longest name; a generous estimate, as the reader's font is unknown."""
    return min(8 * max(map(len, names)) + 12, 2 * width // 5)


def label_width(labels: Iterable[str], *, width: int) -> int:
    """Pixels for the longest label at the end of a bar; at most half of the axis."""
    return min(8 * max(map(len, labels)) + 15, width // 2)


def name_axis(extent: int) -> alt.Axis:
    """Names, left-aligned in `extent` pixels."""
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
    """Above the chart; one column on a narrow chart."""
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


def log_axis(ticks: list[float], *, grid: bool = True) -> alt.Axis:
    """A logarithmic axis that drops overlapping labels."""
    return alt.Axis(values=ticks, format=",d", grid=grid, labelOverlap="greedy", labelSeparation=8)


def log_ticks(low: float, high: float) -> list[float]:
    """Round values from `low` to `high` for a logarithmic axis: 1, 2, 5, 10, …"""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= 4 else (1,)
    ticks = [step * 10.0**power for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


Chart: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart


def apply_theme(chart: Chart, *, theme: Theme, size: tuple[int, int]) -> Chart:
    """The chart in the theme's colours; `size` includes axes and legend."""
    width, height = size
    # One call: Altair copies the whole chart, data included, for each.
    return chart.properties(
        width=width,
        height=height,
        autosize=alt.AutoSizeParams(type="fit", contains="padding"),
        config=_config(theme),
    )


def _config(theme: Theme) -> alt.Config:
    # aria=False: the page describes each chart; Vega's labels would only repeat the data.
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
