"""Attention weights of a model as an HTML page or one picture: every head small, one head large.

Each type of attention (an encoder-decoder has three) shows one head large: the most focused one,
by the mean entropy of its weights, unless the user names a layer or a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from regard.core.errors import UserError
from regard.evaluation import formatting
from regard.reports.charts.attention_lines import MIN_WEIGHT, attention_lines
from regard.reports.charts.attention_maps import (
    MAX_GRID_CELLS,
    MAX_TOKENS,
    attention_grid,
    attention_map,
)
from regard.reports.charts.picture import PAGE, Picture, stack_pictures, text_line
from regard.reports.charts.theme import Theme
from regard.reports.run_report import page_templates
from regard.runs.inspection.inspection import AttentionMap, Floats, Inspection

WIDE, NARROW = 860, 350
TITLES = {
    "attention": "Attention",
    "encoder attention": "Encoder self-attention",
    "decoder attention": "Decoder self-attention",
    "decoder cross attention": "Decoder cross-attention",
}


@dataclass(frozen=True)
class AttentionSection:
    """One type of attention in all layers, with the head that is shown large."""

    title: str
    inspected: Inspection
    maps: tuple[AttentionMap, ...]
    chosen: AttentionMap
    head: int
    reason: str
    "Why this head: `the most focused head`, `as requested`."

    @property
    def name(self) -> str:
        return f"{self.chosen.name}, head {self.head}"

    @property
    def entropy(self) -> float:
        return float(self.chosen.entropies[self.head])

    @property
    def weights(self) -> Floats:
        """(i,j) of the chosen head."""
        weights: Floats = self.chosen.weights[self.head]
        return weights

    def grid(self, theme: Theme, width: int) -> Picture:
        return attention_grid(
            {one.name: one.weights for one in self.maps},
            self.inspected.tokens(self.chosen.queries),
            keys=self.inspected.tokens(self.chosen.keys),
            theme=theme,
            width=width,
            title=f"{self.title}: every head as a small map.",
        )

    def map(self, theme: Theme, width: int) -> Picture:
        title = f"{self.name} as a map of queries and keys."
        return attention_map(*self._chosen_head, theme=theme, width=width, title=title)

    def lines(self, theme: Theme, width: int) -> Picture:
        title = f"{self.name} as lines from queries to keys."
        return attention_lines(*self._chosen_head, theme=theme, width=width, title=title)

    @property
    def _chosen_head(self) -> tuple[Floats, Sequence[str], Sequence[str]]:
        tokens = self.inspected.tokens
        return self.weights, tokens(self.chosen.queries), tokens(self.chosen.keys)


def attention_sections(
    inspected: Inspection, *, layer: int | None = None, head: int | None = None
) -> list[AttentionSection]:
    """The types of attention in the order of the forward pass; layers and heads count from 0."""
    grouped: dict[str, list[AttentionMap]] = {}
    for one in inspected.attention:
        grouped.setdefault(one.stack, []).append(one)
    _check_index("--layer", layer, [one.layer for one in inspected.attention])
    heads = [n for one in inspected.attention for n in range(len(one.weights))]
    _check_index("--head", head, heads)
    return [
        _section(name, inspected, maps, layer=layer, head=head) for name, maps in grouped.items()
    ]


def _check_index(option: str, index: int | None, valid: Sequence[int]) -> None:
    if index is not None and index not in valid:
        raise UserError(
            f"{option} {index} does not exist: this model has {min(valid)} to {max(valid)}",
            topic="inspect",
            hint="Layers and heads are counted from 0.",
        )


def _section(
    name: str,
    inspected: Inspection,
    maps: Sequence[AttentionMap],
    *,
    layer: int | None,
    head: int | None,
) -> AttentionSection:
    heads = [
        (float(one.entropies[h]), index, h)
        for index, one in enumerate(maps)
        for h in range(len(one.weights))
    ]
    candidates = [
        (entropy, index, h)
        for entropy, index, h in heads
        if layer in (None, maps[index].layer) and head in (None, h)
    ]
    if not candidates:  # only another type of attention has the requested layer and head
        candidates, layer, head = heads, None, None
    _, index, chosen = min(candidates)
    requested = [f"{what} {n}" for what, n in (("layer", layer), ("head", head)) if n is not None]
    if len(requested) == 2:
        reason = "as requested"
    else:
        reason = f"the most focused of {requested[0]}" if requested else "the most focused head"
    title = TITLES.get(name, formatting.capitalise(name))
    return AttentionSection(title, inspected, tuple(maps), maps[index], chosen, reason)


def inspection_html(
    inspected: Inspection, sections: Sequence[AttentionSection], *, run: str
) -> str:
    """The page: it opens offline and runs no script."""
    max_loss = max((one.loss for one in inspected.losses), default=0.0)
    page = page_templates().get_template("inspect.html.j2")
    longest = max(max(one.weights.shape[1:]) for one in inspected.attention)
    return page.render(
        run=run,
        inspected=inspected,
        max_loss=max_loss or 1.0,
        sections=[
            {
                "section": section,
                "grid": _inline_pictures(section.grid),
                "map": _inline_pictures(section.map),
                "lines": _inline_pictures(section.lines),
            }
            for section in sections
        ],
        max_tokens=MAX_TOKENS if longest > MAX_TOKENS else None,
        pool_size=-(-longest // MAX_GRID_CELLS),
        min_weight=MIN_WEIGHT,
    )


def inspection_picture(
    inspected: Inspection,
    sections: Sequence[AttentionSection],
    *,
    run: str,
    theme: Theme,
    width: int = WIDE,
) -> Picture:
    """All drawings of the page as one picture."""
    drawn = [text_line(f"{run}: {inspected.text}", theme=theme, width=width, size=15)]
    if inspected.invalid:
        warning = f"INVALID: {'; '.join(inspected.invalid)}"
        drawn.append(text_line(warning, theme=theme, width=width))
    for section in sections:
        drawn += [
            text_line(section.title, theme=theme, width=width, size=14),
            section.grid(theme, width),
            text_line(f"{section.name} ({section.reason})", theme=theme, width=width, size=14),
            section.map(theme, width),
            section.lines(theme, width),
        ]
    return stack_pictures(drawn, gap=20, title=f"Attention of {run}")


@dataclass(frozen=True)
class InlinePicture:
    screen: str
    fits: bool
    "Whether it shrinks with the page; a wider picture scrolls, to keep its text readable."
    svg: Markup


def _inline_pictures(draw: Callable[[Theme, int], Picture]) -> list[InlinePicture]:
    """For a screen or paper, and for a phone."""
    drawn = []
    for screen, width in (("wide", WIDE), ("narrow", NARROW)):
        picture = draw(PAGE, width)
        # Safe: every text in it went through `escape_xml`, and the elements are our own.
        drawn.append(InlinePicture(screen, picture.width <= width, Markup(picture.svg())))
    return drawn
