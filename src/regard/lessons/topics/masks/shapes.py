"""Three masks of one text: who may see whom in a decoder, an encoder and a prefix language model.

Dong et al., 2019, "Unified Language Model Pre-training". Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import altair as alt
import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.masks.mask import Mask, bidirectional, causal, prefix
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, Weights, exercise
from regard.lessons.lesson import Check, Draw, Lesson, LessonTable, equal, near
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.reports.charts import theme as dress
from regard.reports.charts.theme import Chart, Theme

TOKENS = ["Jill", "Birt", "[MASK]", "outdoor", "activities", "He", "was", "[MASK]", "hiking"]
GAP = 1.5
"Between two maps, in cells."
ABOVE = 0.45
"Middle of a line of words above a map, in cells."


@lesson("three-masks", topic="masks", title="Three masks of one text")
def three_masks(*, first: Annotated[int, Range(1, 8)] = 5, seed: Seed = 0) -> Lesson:
    """Who may see whom in a decoder, an encoder and a sequence-to-sequence model?

    One network becomes all three by its mask alone. Unidirectional: the upper triangle is blocked,
    each place sees itself and its past. Bidirectional: nothing is blocked. Sequence-to-sequence:
    the first segment sees itself and nothing of the second, the second sees the first and its own
    past; so the first can be read as a whole before the second is written. What is blocked gets a
    weight of exactly 0 from `attend`, since its score is −∞ before the softmax.
    """
    n = len(TOKENS)
    masks = _masks(first)
    tables = {name: mask.dense(n, n)[0, 0] for name, mask in masks.items()}
    second, in_first = n - first, torch.arange(n) < first
    past = torch.ones(n, n, dtype=torch.bool).tril()
    return Lesson(
        table=LessonTable(
            ("token", "segment", *(f"sees, {name}" for name in tables)),
            [
                (token, 1 if place < first else 2, *(int(t[place].sum()) for t in tables.values()))
                for place, token in enumerate(TOKENS)
            ],
        ),
        chart=_maps(tables),
        caption="One row a query, one column a key, both in the order of the text; filled = may "
        "attend.",
        checks=[
            equal(
                f"pairs blocked: {', '.join(tables)}",
                [int((~table).sum()) for table in tables.values()],
                [n * (n - 1) // 2, 0, first * second + second * (second - 1) // 2],
            ),
            equal("unidirectional: the past and oneself", tables["unidirectional"], past),
            equal(
                "sequence-to-sequence: the first segment sees itself only",
                tables["sequence-to-sequence"][:first],
                in_first.expand(first, -1),
            ),
            equal(
                "the second sees the first and its own past",
                tables["sequence-to-sequence"][first:],
                (in_first | past)[first:],
            ),
            *(_weights_follow(name, mask, seed=seed) for name, mask in masks.items()),
        ],
        see=["attention/masks/mask.py", "objectives/prefix_lm.py", "recipes/masking.toml"],
    )


def _masks(first: int) -> dict[str, Mask]:
    return {
        "unidirectional": causal(),
        "bidirectional": bidirectional(),
        "sequence-to-sequence": prefix(torch.tensor([first])),
    }


def _weights_follow(name: str, mask: Mask, *, seed: int) -> Check:
    """That real weights are zero where the mask blocks, and sum to 1."""
    n = len(TOKENS)
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 1, 1, n, 4, generator=generator, dtype=torch.float64)
    weights = attend(q, k, v, mask, want_weights=True).weights
    assert weights is not None
    blocked = weights.masked_select(~mask.dense(n, n))
    sums = torch.cat((weights.sum(dim=-1).flatten(), blocked))
    expected = torch.cat((torch.ones(n), torch.zeros(len(blocked))))
    return near(f"weights, {name}: rows sum to 1, blocked are 0", sums, expected, within=1e-12)


def _maps(tables: dict[str, Tensor]) -> Draw:
    """The masks side by side, or below one another where the page is narrow."""

    def draw(*, theme: Theme, width: int) -> Chart:
        n, wide = len(TOKENS), width > 480
        step = n + GAP
        cells, titles, ends = [], [], []
        for number, (name, table) in enumerate(tables.items()):
            right, down = (number * step, 0.0) if wide else (0.0, number * step)
            titles.append({"x": right, "y": down - ABOVE, "label": name})
            ends.append({"x": right + n, "y": down - ABOVE, "label": "key →"})
            cells += _cells(table, right, down)
        tops = [0.0] if wide else [number * step for number in range(len(tables))]
        labels = [
            {"x": -0.3, "y": top + down, "label": word} for top in tops for down, word in _beside()
        ]
        room = max(map(len, TOKENS)) * (0.24 if wide else 0.33) + 0.6
        across = [-room, 3 * step - GAP] if wide else [-room, n + 0.2]
        down_to = [n + 0.2, -1.2] if wide else [3 * step - GAP + 0.2, -1.2]
        # The same number of pixels for a cell in both directions.
        height = round(width * (down_to[0] - down_to[1]) / (across[1] - across[0]))
        x, y = _plain_axis("x", across), _plain_axis("y", down_to)
        layers = [
            alt.Chart(alt.InlineData(values=cells))
            .mark_rect(cornerRadius=1)
            .encode(
                x=x,
                y=y,
                x2="x2:Q",
                y2="y2:Q",
                color=alt.Color(
                    "may:N",
                    legend=None,
                    scale=alt.Scale(domain=["yes", "no"], range=[theme.model, theme.grid]),
                ),
            ),
            _words(titles, (x, y), theme.ink, align="left"),
            _words([*labels, *ends], (x, y), theme.quiet, align="right"),
        ]
        return dress.dressed(alt.layer(*layers), theme=theme, size=(width, height))

    return draw


def _beside() -> list[tuple[float, str]]:
    """Words left of a map, and how far below its upper edge each stands."""
    return [(-ABOVE, "query ↓"), *((row + 0.5, token) for row, token in enumerate(TOKENS))]


def _plain_axis(name: str, domain: list[float]) -> Any:
    channel = alt.X if name == "x" else alt.Y
    return channel(f"{name}:Q", axis=None, scale=alt.Scale(domain=domain, nice=False, zero=False))


def _words(
    rows: Sequence[dict[str, Any]], axes: tuple[Any, Any], colour: str, *, align: Any
) -> alt.Chart:
    words: alt.Chart = (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_text(align=align, fontSize=12, color=colour, baseline="middle")
        .encode(x=axes[0], y=axes[1], text="label:N")
    )
    return words


def _cells(table: Tensor, right: float, down: float) -> list[dict[str, Any]]:
    return [
        {
            "x": right + j + 0.05,
            "x2": right + j + 0.95,
            "y": down + i + 0.05,
            "y2": down + i + 0.95,
            "may": "yes" if may else "no",
        }
        for i, row in enumerate(table.tolist())
        for j, may in enumerate(row)
    ]


@exercise("three-masks")
def three_masks_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    first, second = (2 + torch.randint(4, (2,), generator=generator)).tolist()
    n = first + second
    name = ("unidirectional", "sequence-to-sequence")[seed % 2]
    wanted = _masks(first)[name].dense(n, n)[0, 0]

    def mark(answer: Answer) -> Mark:
        wrong = answer["mask"] != wanted
        says = f"{int(wrong.sum())} of {n * n} pairs are wrong; drawn is the mask you gave."
        positions = [str(place + 1) for place in range(n)]
        drawn = Weights(positions, positions, answer["mask"].double())
        return Mark(float(wrong.sum()) / (n * n), 0.0, says, drawn)

    return ExerciseSheet(
        task=f"A text has a first segment of {first} tokens and a second of {second}. Give the "
        f"{name} mask: mask[i][j] is true where token i may attend to token j.",
        given={"first": first, "second": second},
        slots=(Slot("mask", (n, n), of="flags"),),
        mark=mark,
    )
