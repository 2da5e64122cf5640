"""How far argmax attention sees: (k+1)ⁿ places for k heads and n layers.

Shapes: h heads, n places.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction
from regard.attention.kinds.dot import DotProduct
from regard.attention.kinds.hard import BestKey
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Lesson, LessonTable, below, equal
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson


@lesson("receptive-field", topic="attention by hand", title="How far argmax attention sees")
def receptive_field(
    *,
    heads: Annotated[int, Range(1, 3)] = 2,
    layers: Annotated[int, Range(1, 4)] = 3,
    seed: Seed = 0,
) -> Lesson:
    """How many places can reach one output through layers of argmax attention?

    Each head brings one other place, and the residual keeps one's own: k heads see k + 1 places. In
    the next layer each of these has seen k + 1 places itself, so n layers see at most (k+1)ⁿ. The
    bound is reached when no two ways lead to the same place, here by heads that look 1, 2, … steps
    ahead in the first layer, k+1 times as far in the second, and so on; heads that look anywhere
    meet again and see less. Softmax sees every place in one layer.
    """
    bound = (heads + 1) ** layers
    apart = [_ahead(heads, layer, bound) for layer in range(layers)]
    generator = torch.Generator().manual_seed(seed)
    anywhere = [torch.randint(bound, (heads, bound), generator=generator) for _ in range(layers)]
    reached = {
        "argmax, no two ways meet": [_reached(apart[:n], BestKey()) for n in range(1, layers + 1)],
        "argmax, anywhere": [_reached(anywhere[:n], BestKey()) for n in range(1, layers + 1)],
        "softmax": [_reached(apart[:n], DotProduct()) for n in range(1, layers + 1)],
    }
    rows = [
        {"layers": n, "places that reach the output": found, "": name}
        for name, counts in reached.items()
        for n, found in enumerate(counts, start=1)
    ]
    most = [(heads + 1) ** n for n in range(1, layers + 1)]
    return Lesson(
        table=LessonTable(
            ("layers", "(k+1)ⁿ", *reached),
            [(n + 1, most[n], *(counts[n] for counts in reached.values())) for n in range(layers)],
        ),
        chart=curves(rows, x="layers", y="places that reach the output", series="", log="y"),
        caption=f"How many of {bound} places have a gradient to the first output, by layers.",
        checks=[
            equal("places reached, layer by layer", reached["argmax, no two ways meet"], most),
            below(
                "places reached by heads that look anywhere", reached["argmax, anywhere"][-1], bound
            ),
            equal("places reached by one softmax layer", reached["softmax"][0], bound),
        ],
        see=["attention/kinds/hard.py", "attention/attend.py", "recipes/lengths.toml"],
    )


def _ahead(heads: int, layer: int, positions: int) -> Tensor:
    """(h,n): where each head looks from each place, so that no two ways meet."""
    steps = torch.arange(1, heads + 1)[:, None] * (heads + 1) ** layer
    there: Tensor = (torch.arange(positions) + steps) % positions
    return there


def _reached(layers: list[Tensor], rule: AttentionFunction) -> int:
    return int(_seen(layers, rule).sum())


def _seen(layers: list[Tensor], rule: AttentionFunction) -> Tensor:
    """(n): the places from which there is a gradient to the first place's output."""
    positions = layers[0].shape[1]
    marks = torch.eye(positions, dtype=torch.float64)
    x = torch.ones(positions, 1, dtype=torch.float64, requires_grad=True)
    row = x
    for looks_at in layers:
        queries, keys = marks[looks_at], marks.expand(len(looks_at), -1, -1)
        values = row.expand(len(looks_at), -1, -1)
        row = row + attend(queries[None], keys[None], values[None], rule=rule).out[0].sum(dim=0)
    (gradient,) = torch.autograd.grad(row[0, 0], x)
    return gradient[:, 0] != 0


@exercise("receptive-field")
def receptive_field_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    looks_at = [torch.randint(8, (1, 8), generator=generator) for _ in range(3)]
    seen = _seen(looks_at, BestKey())

    def mark(answer: Answer) -> Mark:
        wrong = int((answer["seen"] != seen).sum())
        says = f"{wrong} of 8 places are wrong; 3 layers of one head see at most 2³ = 8."
        return Mark(float(wrong), 0.0, says)

    return ExerciseSheet(
        task="Three layers of one argmax head with residuals, 8 places. looks_at[l][i] is the "
        "place (from 0) that place i looks at in layer l. Which input places reach the output "
        "of place 0?",
        given={"looks_at": torch.cat(looks_at)},
        slots=(Slot("seen", (8,), of="flags"),),
        mark=mark,
    )
