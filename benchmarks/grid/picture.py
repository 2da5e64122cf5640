"""The picture of a grid: the ratio at each point, by width and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

SHAPES = {65: "circle", 8_192: "square", 50_304: "triangle-up"}
"By vocabulary."


def write_picture(results: Mapping[str, Any], file: Path) -> None:
    """A panel for each width; above the line regard is faster than the best peer."""
    points = [{**row, "label": f"{row['value']:.2f}"} for row in results["points"]]
    ground = alt.Chart().encode(
        x=alt.X(
            "tokens:Q",
            title="tokens a step",
            scale=alt.Scale(type="log", base=2, domain=[200, 20_000]),
            axis=alt.Axis(values=[256, 1_024, 4_096, 16_384], format=","),
        )
    )
    ratio = alt.Y(
        "value:Q", title="best peer ÷ regard", scale=alt.Scale(type="log", nice=False, padding=18)
    )
    shape = alt.Shape(
        "vocabulary:N",
        title="vocabulary",
        scale=alt.Scale(domain=list(SHAPES), range=list(SHAPES.values())),
    )
    colour = alt.Color(
        "context:Q", title="context", scale=alt.Scale(type="log", scheme="viridis", reverse=True)
    )
    layers = alt.layer(
        alt.Chart().mark_rule(strokeDash=[4, 4], color="#888").encode(y=alt.datum(1.0)),
        ground.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q"), y2="high:Q"),
        ground.mark_point(filled=True, size=90, opacity=1).encode(
            y=ratio, shape=shape, color=colour
        ),
        ground.mark_text(dy=-11, fontSize=10).encode(y=ratio, text="label:N"),
        data=alt.InlineData(points),
    )
    chart = layers.properties(width=230, height=200).facet(
        facet=alt.Facet("width:O", title="width"), columns=3
    )
    machine = results["machine"]
    title = (
        f"{results['date']}, {machine['cores']} cores of {machine['cpu']}, {machine['simd']}, "
        f"kernels {machine['kernels']}; seed {results['seed']}"
    )
    chart = chart.properties(
        title={"text": title, "subtitle": f"peers: {', '.join(results['peers'])}"}
    )
    file.write_bytes(vl_convert.vegalite_to_png(chart.to_dict(), scale=1.5))
