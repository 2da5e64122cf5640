"""How the cost of each attention kind grows with the sequence length.

Shapes: n positions, d head width. Masks: True = may attend.
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
from regard.attention.masks.mask import Mask, bidirectional, sliding_window
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.lessons import Lesson, LessonTable, Range, above, lesson, line_chart, near
from regard.lessons.topics.cost.operation_counts import count_operations, fit_exponent, min_seconds

LENGTHS = [256, 512, 1024]
HEADS = 2
FIXED_GROUPS, WINDOW = "group, of fixed size", "dot, sliding window"
TIMED = ("dot", "additive", "linear", "synthesizer-dense", FIXED_GROUPS)


@lesson(
    "growth-of-kinds",
    topic="kinds and cost",
    title="Complexity of attention kinds",
    duration="a minute",
)
def growth_of_kinds(
    *,
    head_width: Annotated[int, Range(2, 16)] = 8,
    reach: Annotated[int, Range(4, 32)] = 32,
) -> Lesson:
    """Which attention kinds cost O(n²), and which O(n)?

    Every kind that computes a score for each pair costs O(n²): dot-product, additive and hard
    attention, and synthesizers as well, although they compare no query with a key. Only kinds that
    never form the n × n matrix are cheaper: sums over keys (linear attention), groups of a fixed
    size, or a sliding window of fixed length. A fixed number G of groups is still O(n²), divided by
    G. The declared cost of each kind in the catalogue is checked against FLOPs counted at three
    lengths; elementwise operations such as the softmax are not counted and grow no faster.
    """
    kinds = _kinds(reach)
    flops = {
        name: [count_operations(_run(one, n, head_width)).token_mixing for n in LENGTHS]
        for name, one in kinds.items()
    }
    exponents = {name: fit_exponent(LENGTHS, costs) for name, costs in flops.items()}
    rows = [
        {"length n": n, "seconds": min_seconds(_run(kinds[name], n, head_width)), "attention": name}
        for name in TIMED
        for n in LENGTHS
    ]
    first, last = (f"{n:,}" for n in (LENGTHS[0], LENGTHS[-1]))
    return Lesson(
        table=LessonTable(
            (
                "attention",
                "declared cost",
                f"FLOPs at n = {first}",
                f"at n = {last}",
                "exponent of n",
            ),
            [
                (name, one.declared, flops[name][0], flops[name][-1], round(exponents[name], 3))
                for name, one in kinds.items()
            ],
        ),
        chart=line_chart(rows, x="length n", y="seconds", series="attention", log="xy"),
        caption="Time of one layer on this machine against sequence length, for some of the kinds.",
        checks=[
            *(
                near(f"exponent of n, {name}", exponents[name], one.exponent, within=0.1)
                for name, one in kinds.items()
            ),
            above(
                f"FLOPs at n = {last}, dot ÷ linear",
                flops["dot"][-1] / flops["linear"][-1],
                10,
            ),
        ],
        see_also=["attention/kinds/__init__.py", "attention/attend.py", "recipes/lengths.toml"],
    )


class CostClaim(NamedTuple):
    """A kind for sequences of length n, its mask, the exponent of n and the declared cost."""

    kind: Callable[[int], AttentionKind]
    mask: Mask
    exponent: int
    declared: str


def _kinds(reach: int) -> dict[str, CostClaim]:
    """Every kind of the catalogue, and two forms of local attention."""
    kinds = {entry.name: _declared_claim(entry.part()) for entry in ATTENTION}
    kinds[FIXED_GROUPS] = CostClaim(
        lambda n: Group(groups=n // reach), bidirectional(), 1, f"n · {reach} · d"
    )
    kinds[WINDOW] = CostClaim(lambda n: Dot(), sliding_window(reach + 1), 1, f"n · {reach} · d")
    return kinds


def _declared_claim(kind: AttentionKind) -> CostClaim:
    cost = kind.traits.cost
    return CostClaim(lambda n: kind, bidirectional(), 2 if "n²" in cost else 1, cost)


def _run(one: CostClaim, n: int, head_width: int) -> partial[object]:
    """Forward pass of one layer of this kind over n positions."""
    mixer = build_mixer(one.kind(n), HeadShape(head_width, heads=HEADS, context=n))
    x = torch.zeros(1, n, HEADS * head_width)
    return partial(mixer, x, mask=one.mask, positions=TokenPositions.of_row(n))
