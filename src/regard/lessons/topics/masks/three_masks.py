"""Three masks on one text: causal decoder, bidirectional encoder and prefix language model.

Dong et al., 2019, "Unified Language Model Pre-training". Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import altair as alt
import torch
from torch import Tensor

from regard.attention.masks.mask import Mask, bidirectional, causal, prefix
from regard.lessons import (
    Answer,
    ChartFunction,
    Check,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    equal,
    exercise,
    lesson,
    mark_mask,
    near,
    standard_normal,
)
from regard.lessons.unscaled_attention import attend_sequence
from regard.reports.charts import theme as chart_theme
from regard.reports.charts.theme import Chart, Theme

TOKENS = ["Jill", "Birt", "[MASK]", "outdoor", "activities", "He", "was", "[MASK]", "hiking"]
GAP = 1.5
"Between two heatmaps, in cells."
TITLE_OFFSET = 0.45
"Centre of the line of text above a heatmap, in cells."


@lesson("three-masks", topic="masks", title="Three masks on one text")
def three_masks(*, first: Annotated[int, Range(1, 8)] = 5, seed: Seed = 0) -> Lesson:
    """Which keys may a query attend to in a decoder, an encoder and a sequence-to-sequence model?

    One network becomes all three by its mask alone. Unidirectional: the upper triangle is blocked;
    each position attends to itself and its past. Bidirectional: nothing is blocked.
    Sequence-to-sequence: the first segment attends to all of itself and to nothing of the second;
    the second attends to the first and to its own past, so the first can be encoded in full before
    the second is generated. Blocked keys get a weight of exactly 0 from `attend`, since their
    scores are −∞ before the softmax.
    """
    n = len(TOKENS)
    masks = _masks(first)
    tables = {name: mask.dense(n, n)[0, 0] for name, mask in masks.items()}
    second, in_first = n - first, torch.arange(n) < first
    past = torch.ones(n, n, dtype=torch.bool).tril()
    return Lesson(
        table=LessonTable(
            ("token", "segment", *(f"keys, {name}" for name in tables)),
            [
                (
                    token,
                    1 if position < first else 2,
                    *(int(table[position].sum()) for table in tables.values()),
                )
                for position, token in enumerate(TOKENS)
            ],
        ),
        chart=_mask_chart(tables),
        caption="One row per query, one column per key, both in text order; filled = may attend.",
        checks=[
            equal(
                f"blocked pairs: {', '.join(tables)}",
                [int((~table).sum()) for table in tables.values()],
                [n * (n - 1) // 2, 0, first * second + second * (second - 1) // 2],
            ),
            equal("unidirectional: itself and the past", tables["unidirectional"], past),
            equal(
                "sequence-to-sequence: the first segment attends to itself only",
                tables["sequence-to-sequence"][:first],
                in_first.expand(first, -1),
            ),
            equal(
                "sequence-to-sequence: the second attends to the first and its own past",
                tables["sequence-to-sequence"][first:],
                (in_first | past)[first:],
            ),
            *(_weights_check(name, mask, seed=seed) for name, mask in masks.items()),
        ],
        see_also=["attention/masks/mask.py", "objectives/prefix_lm.py", "recipes/masking.toml"],
    )


def _masks(first: int) -> dict[str, Mask]:
    return {
        "unidirectional": causal(),
        "bidirectional": bidirectional(),
        "sequence-to-sequence": prefix(torch.tensor([first])),
    }


def _weights_check(name: str, mask: Mask, *, seed: int) -> Check:
    """Weights of `attend` are zero where the mask blocks, and sum to 1."""
    n = len(TOKENS)
    q, k, v = standard_normal(3, n, 4, seed=seed)
    weights = attend_sequence(q, k, v, mask).weights
    blocked = weights.masked_select(~mask.dense(n, n))
    sums = torch.cat((weights.sum(dim=-1).flatten(), blocked))
    expected = torch.cat((torch.ones(n), torch.zeros(len(blocked))))
    return near(
        f"weights, {name}: rows sum to 1, blocked weights are 0", sums, expected, within=1e-12
    )


def _mask_chart(tables: dict[str, Tensor]) -> ChartFunction:
    """The masks side by side, or stacked on a narrow page."""

    def draw(*, theme: Theme, width: int) -> Chart:
        n, wide = len(TOKENS), width > 480
        step = n + GAP
        cells, titles, ends = [], [], []
        for number, (name, table) in enumerate(tables.items()):
            right, down = (number * step, 0.0) if wide else (0.0, number * step)
            titles.append({"x": right, "y": down - TITLE_OFFSET, "label": name})
            ends.append({"x": right + n, "y": down - TITLE_OFFSET, "label": "key →"})
            cells += _cells(table, right, down)
        tops = [0.0] if wide else [number * step for number in range(len(tables))]
        # Left of a heatmap, with their distance below its upper edge.
        rows = [(-TITLE_OFFSET, "query ↓"), *((row + 0.5, name) for row, name in enumerate(TOKENS))]
        labels = [
            {"x": -0.3, "y": top + down, "label": text} for top in tops for down, text in rows
        ]
        label_width = max(map(len, TOKENS)) * (0.24 if wide else 0.33) + 0.6
        across = [-label_width, 3 * step - GAP] if wide else [-label_width, n + 0.2]
        down_to = [n + 0.2, -1.2] if wide else [3 * step - GAP + 0.2, -1.2]
        # Square cells.
        height = round(width * (down_to[0] - down_to[1]) / (across[1] - across[0]))
        x_scale, y_scale = (
            alt.Scale(domain=domain, nice=False, zero=False) for domain in (across, down_to)
        )
        x = alt.X("x:Q", axis=None, scale=x_scale)
        y = alt.Y("y:Q", axis=None, scale=y_scale)
        layers = [
            alt.Chart(alt.InlineData(values=cells))
            .mark_rect(cornerRadius=1)
            .encode(
                x=x,
                y=y,
                x2="x2:Q",
                y2="y2:Q",
                color=alt.Color(
                    "allowed:N",
                    legend=None,
                    scale=alt.Scale(domain=["yes", "no"], range=[theme.model, theme.grid]),
                ),
            ),
            _text_layer(titles, (x, y), theme.ink, align="left"),
            _text_layer([*labels, *ends], (x, y), theme.quiet, align="right"),
        ]
        return chart_theme.apply_theme(alt.layer(*layers), theme=theme, size=(width, height))

    return draw


def _text_layer(
    rows: Sequence[dict[str, Any]], axes: tuple[Any, Any], colour: str, *, align: Any
) -> alt.Chart:
    layer = alt.Chart(alt.InlineData(values=list(rows))).mark_text(
        align=align, fontSize=12, color=colour, baseline="middle"
    )
    return layer.encode(x=axes[0], y=axes[1], text="label:N")


def _cells(table: Tensor, right: float, down: float) -> list[dict[str, Any]]:
    return [
        {
            "x": right + j + 0.05,
            "x2": right + j + 0.95,
            "y": down + i + 0.05,
            "y2": down + i + 0.95,
            "allowed": "yes" if allowed else "no",
        }
        for i, row in enumerate(table.tolist())
        for j, allowed in enumerate(row)
    ]


@exercise("three-masks")
def three_masks_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    first, second = (2 + torch.randint(4, (2,), generator=generator)).tolist()
    n = first + second
    name = ("unidirectional", "sequence-to-sequence")[seed % 2]
    target = _masks(first)[name].dense(n, n)[0, 0]

    def mark(answer: Answer) -> Mark:
        return mark_mask(answer["mask"], target, [str(position + 1) for position in range(n)])

    return ExerciseSheet(
        task=f"A text has a first segment of {first} tokens and a second of {second}. Give the "
        f"{name} mask: mask[i][j] is true where token i may attend to token j.",
        given={"first": first, "second": second},
        slots=(Slot("mask", (n, n), element_type="flags"),),
        mark=mark,
    )
