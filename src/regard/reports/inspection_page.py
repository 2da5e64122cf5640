"""A look into a model as a page, or as one picture: every head small, one head large.

For each part of a model that attends (an encoder-decoder has three) one head is chosen: the most
focused, by the mean entropy of its weights, unless the person names a layer or a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from regard.core.errors import UserError
from regard.evaluation import formatting
from regard.reports.charts.attention_lines import FAINTEST, attention_lines
from regard.reports.charts.attention_maps import FINEST, MOST_PLACES, attention_grid, attention_map
from regard.reports.charts.picture import PAGE, Picture, line_of_text, stacked
from regard.reports.charts.theme import Theme
from regard.reports.run_report import page_templates
from regard.runs.inspection.inspection import AttentionMap, Floats, Inspection

WIDE, NARROW = 860, 350
TITLES = {
    "attention": "Attention",
    "encoder attention": "Attention within the source",
    "decoder attention": "Attention within the target",
    "decoder cross attention": "Attention from the target to the source",
}


@dataclass(frozen=True)
class AttentionSection:
    """The attentions of one sort in all layers, with the head to look at closely."""

    title: str
    maps: tuple[AttentionMap, ...]
    chosen: AttentionMap
    head: int
    why: str

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
            self.chosen.queries.tokens,
            keys=self.chosen.keys.tokens,
            theme=theme,
            width=width,
            title=f"{self.title}: every head as a small map.",
        )

    def map(self, theme: Theme, width: int) -> Picture:
        title = f"{self.name} as a map of queries and keys."
        return attention_map(*self._close, theme=theme, width=width, title=title)

    def lines(self, theme: Theme, width: int) -> Picture:
        title = f"{self.name} as lines from queries to keys."
        return attention_lines(*self._close, theme=theme, width=width, title=title)

    @property
    def _close(self) -> tuple[Floats, Sequence[str], Sequence[str]]:
        return self.weights, self.chosen.queries.tokens, self.chosen.keys.tokens


def parts_of(
    inspected: Inspection, *, layer: int | None = None, head: int | None = None
) -> list[AttentionSection]:
    """The parts in the order of the pass; layers and heads are counted from 0."""
    grouped: dict[str, list[AttentionMap]] = {}
    for one in inspected.maps:
        grouped.setdefault(one.part, []).append(one)
    _check_number("--layer", layer, [one.layer for one in inspected.maps])
    _check_number("--head", head, [n for one in inspected.maps for n in range(len(one.weights))])
    return [
        _part(TITLES.get(name, formatting.capitalise(name)), maps, layer=layer, head=head)
        for name, maps in grouped.items()
    ]


def _check_number(option: str, number: int | None, there: Sequence[int]) -> None:
    if number is not None and number not in there:
        raise UserError(
            f"{option} {number} is not there: this model has {sorted(set(there))[0]} to "
            f"{max(there)}",
            topic="inspect",
            hint="Layers and heads are counted from 0.",
        )


def _part(
    title: str, maps: Sequence[AttentionMap], *, layer: int | None, head: int | None
) -> AttentionSection:
    every = [
        (float(one.entropies[n]), number, n)
        for number, one in enumerate(maps)
        for n in range(len(one.weights))
    ]
    free = [
        (entropy, number, n)
        for entropy, number, n in every
        if layer in (None, maps[number].layer) and head in (None, n)
    ]
    if not free:  # another part has what was asked for, and this one does not
        free, layer, head = every, None, None
    _, number, found = min(free)
    asked = [f"{what} {n}" for what, n in (("layer", layer), ("head", head)) if n is not None]
    why = "the most focused head" if not asked else f"the most focused of {asked[0]}"
    return AttentionSection(
        title, tuple(maps), maps[number], found, "as asked" if len(asked) == 2 else why
    )


def inspection_html(inspected: Inspection, parts: Sequence[AttentionSection], *, run: str) -> str:
    """The page: it opens offline and runs no script."""
    worst = max((told.loss for told in inspected.losses), default=0.0)
    page = page_templates().get_template("inspect.html.j2")
    longest = max(max(one.weights.shape[1:]) for one in inspected.maps)
    return page.render(
        run=run,
        inspected=inspected,
        worst=worst or 1.0,
        parts=[
            {
                "part": part,
                "grid": _drawings(part.grid),
                "map": _drawings(part.map),
                "lines": _drawings(part.lines),
            }
            for part in parts
        ],
        most_places=MOST_PLACES if longest > MOST_PLACES else None,
        cells_together=-(-longest // FINEST),
        faintest=FAINTEST,
    )


def inspection_picture(
    inspected: Inspection,
    parts: Sequence[AttentionSection],
    *,
    run: str,
    theme: Theme,
    width: int = WIDE,
) -> Picture:
    """Everything the page draws, as one picture."""
    drawn = [line_of_text(f"{run}: {inspected.text}", theme=theme, width=width, size=15)]
    if inspected.invalid:
        says = f"INVALID: {'; '.join(inspected.invalid)}"
        drawn.append(line_of_text(says, theme=theme, width=width))
    for part in parts:
        drawn += [
            line_of_text(part.title, theme=theme, width=width, size=14),
            part.grid(theme, width),
            line_of_text(f"{part.name} ({part.why})", theme=theme, width=width, size=14),
            part.map(theme, width),
            part.lines(theme, width),
        ]
    return stacked(drawn, gap=20, title=f"Attention of {run}")


@dataclass(frozen=True)
class InlinePicture:
    screen: str
    fits: bool
    "Whether it may shrink with the page; a broader one is scrolled, for its words to be read."
    svg: Markup


def _drawings(draw: Callable[[Theme, int], Picture]) -> list[InlinePicture]:
    """For a screen or paper, and for a phone."""
    drawn = []
    for screen, width in (("wide", WIDE), ("narrow", NARROW)):
        picture = draw(PAGE, width)
        # Safe: every text in it went through `plain`, and the elements are our own.
        drawn.append(InlinePicture(screen, picture.width <= width, Markup(picture.svg())))
    return drawn
