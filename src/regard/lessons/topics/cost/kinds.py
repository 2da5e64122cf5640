"""How the cost of every kind of attention grows with the length of a row.

Shapes: n places, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, NamedTuple

import torch

from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION, AttentionKind
from regard.attention.kinds.dot import Dot
from regard.attention.kinds.group import Group
from regard.attention.masks.mask import Mask, bidirectional, lookback
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.lessons.lesson import Lesson, LessonTable, above, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range
from regard.lessons.registry import lesson
from regard.lessons.topics.cost.counted import exponent, operations, seconds

LENGTHS = [256, 512, 1024]
HEADS = 2
NEAR, BACK = "group, of fixed size", "dot, looking back"
DRAWN = ("dot", "additive", "linear", "synthesizer-dense", NEAR)


@lesson(
    "growth-of-kinds",
    topic="kinds and cost",
    title="How the cost of each kind grows",
    takes="a minute",
)
def growth_of_kinds(
    *,
    head_width: Annotated[int, Range(2, 16)] = 8,
    reach: Annotated[int, Range(4, 32)] = 32,
) -> Lesson:
    """Which kinds of attention cost n², and which only n?

    Whatever makes a number for every pair costs n²: dot-product, additive and hard attention, and
    synthesizers as well, though they compare nothing. Only what never makes the table is cheaper:
    sums over keys (linear), groups of a fixed size, or a band that looks back a fixed number of
    places. A fixed number of groups is still n², divided by it. What each kind of the catalogue
    declares as its cost is held against operations counted at three lengths; what is done element
    by element, as a softmax is, is not counted and grows no faster.
    """
    kinds = _kinds(reach)
    spent = {
        name: [operations(_run(one, n, head_width)).meeting for n in LENGTHS]
        for name, one in kinds.items()
    }
    powers = {name: exponent(LENGTHS, costs) for name, costs in spent.items()}
    rows = [
        {"places n": n, "seconds": seconds(_run(kinds[name], n, head_width)), "attention": name}
        for name in DRAWN
        for n in LENGTHS
    ]
    first, last = (f"{n:,}" for n in (LENGTHS[0], LENGTHS[-1]))
    return Lesson(
        table=LessonTable(
            ("attention", "declared", f"operations at {first}", f"at {last}", "power of n"),
            [
                (name, one.declared, spent[name][0], spent[name][-1], round(powers[name], 3))
                for name, one in kinds.items()
            ],
        ),
        chart=curves(rows, x="places n", y="seconds", series="attention", log="xy"),
        caption="Time of one layer on this machine against the length, for some of the kinds.",
        checks=[
            *(
                near(f"power of n, {name}", powers[name], one.power, within=0.1)
                for name, one in kinds.items()
            ),
            above(
                f"operations at {last} places, dot against linear",
                spent["dot"][-1] / spent["linear"][-1],
                10,
            ),
        ],
        see=["attention/kinds/__init__.py", "attention/attend.py", "recipes/lengths.toml"],
    )


class Growing(NamedTuple):
    """A kind for a row of n places, its mask, and the power of n that it has to grow with."""

    kind: Callable[[int], AttentionKind]
    mask: Mask
    power: int
    declared: str


def _kinds(reach: int) -> dict[str, Growing]:
    """Every kind of the catalogue, and two ways to look at near places alone."""
    kinds = {entry.name: _declared(entry.part()) for entry in ATTENTION}
    kinds[NEAR] = Growing(
        lambda n: Group(groups=n // reach), bidirectional(), 1, f"n · {reach} · d"
    )
    kinds[BACK] = Growing(lambda n: Dot(), lookback(reach), 1, f"n · {reach} · d")
    return kinds


def _declared(kind: AttentionKind) -> Growing:
    cost = kind.traits.cost
    return Growing(lambda n: kind, bidirectional(), 2 if "n²" in cost else 1, cost)


def _run(one: Growing, n: int, head_width: int) -> partial[object]:
    """A layer of this kind over a row, ready to run."""
    mixer = build_mixer(one.kind(n), HeadShape(head_width, heads=HEADS, context=n))
    x = torch.zeros(1, n, HEADS * head_width)
    return partial(mixer, x, mask=one.mask, positions=TokenPositions.of_row(n))
