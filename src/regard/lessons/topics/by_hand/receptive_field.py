"""Receptive field of hard attention: (k+1)ⁿ positions for k heads and n layers.

Shapes: h heads, n positions.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction
from regard.attention.kinds.dot import DotProduct
from regard.attention.kinds.hard import ArgmaxAttention
from regard.lessons import (
    Answer,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    below,
    equal,
    exercise,
    lesson,
    line_chart,
)


@lesson("receptive-field", topic="attention by hand", title="Receptive field of hard attention")
def receptive_field(
    *,
    heads: Annotated[int, Range(1, 3)] = 2,
    layers: Annotated[int, Range(1, 4)] = 3,
    seed: Seed = 0,
) -> Lesson:
    """How many positions can influence one output through layers of hard attention?

    Each head attends to one other position, and the residual connection keeps the position itself:
    one layer of k heads has a receptive field of k + 1 positions. Each of these has a receptive
    field of k + 1 in the layer below, so n layers reach at most (k+1)ⁿ. The bound is attained when
    no two paths lead to the same position, here by heads that attend 1, 2, … positions ahead in the
    first layer, k+1 times as far in the second, and so on; with random heads paths coincide and
    the receptive field is smaller. Softmax attention reaches every position in one layer.
    """
    bound = (heads + 1) ** layers
    disjoint = [_disjoint_targets(heads, layer, bound) for layer in range(layers)]
    generator = torch.Generator().manual_seed(seed)
    random = [torch.randint(bound, (heads, bound), generator=generator) for _ in range(layers)]
    depths = range(1, layers + 1)
    networks: dict[str, tuple[list[Tensor], AttentionFunction]] = {
        "hard, disjoint paths": (disjoint, ArgmaxAttention()),
        "hard, random heads": (random, ArgmaxAttention()),
        "softmax": (disjoint, DotProduct()),
    }
    reached = {
        name: [int(_receptive_field(targets[:n], function).sum()) for n in depths]
        for name, (targets, function) in networks.items()
    }
    rows = [
        {"layers": n, "receptive field, positions": size, "": name}
        for name, counts in reached.items()
        for n, size in enumerate(counts, start=1)
    ]
    bounds = [(heads + 1) ** n for n in depths]
    return Lesson(
        table=LessonTable(
            ("layers", "(k+1)ⁿ", *reached),
            list(zip(depths, bounds, *reached.values(), strict=True)),
        ),
        chart=line_chart(rows, x="layers", y="receptive field, positions", series="", log="y"),
        caption=f"Input positions, of {bound}, with a gradient from the first output, by depth.",
        checks=[
            equal(
                "receptive field by depth, disjoint paths", reached["hard, disjoint paths"], bounds
            ),
            below("receptive field, random heads", reached["hard, random heads"][-1], bound),
            equal("receptive field of one softmax layer", reached["softmax"][0], bound),
        ],
        see_also=["attention/kinds/hard.py", "attention/attend.py", "recipes/lengths.toml"],
    )


def _disjoint_targets(heads: int, layer: int, positions: int) -> Tensor:
    """(h,n): the position each head attends to from each position, such that no paths coincide."""
    offsets = torch.arange(1, heads + 1)[:, None] * (heads + 1) ** layer
    targets: Tensor = (torch.arange(positions) + offsets) % positions
    return targets


def _receptive_field(layers: list[Tensor], function: AttentionFunction) -> Tensor:
    """(n): input positions with a gradient from the output at position 0."""
    positions = layers[0].shape[1]
    one_hot = torch.eye(positions, dtype=torch.float64)
    x = torch.ones(positions, 1, dtype=torch.float64, requires_grad=True)
    hidden = x
    for targets in layers:
        queries, keys = one_hot[targets], one_hot.expand(len(targets), -1, -1)
        values = hidden.expand(len(targets), -1, -1)
        hidden = hidden + attend(queries[None], keys[None], values[None], function=function).out[
            0
        ].sum(dim=0)
    (gradient,) = torch.autograd.grad(hidden[0, 0], x)
    return gradient[:, 0] != 0


@exercise("receptive-field")
def receptive_field_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    targets = [torch.randint(8, (1, 8), generator=generator) for _ in range(3)]
    reached = _receptive_field(targets, ArgmaxAttention())

    def mark(answer: Answer) -> Mark:
        wrong = int((answer["reached"] != reached).sum())
        feedback = f"{wrong} of 8 positions are wrong; 3 layers of one head reach at most 2³ = 8."
        return Mark(float(wrong), 0.0, feedback)

    return ExerciseSheet(
        task="Three layers of one hard-attention head with residual connections, 8 positions. "
        "attends_to[l][i] is the position (from 0) that position i attends to in layer l. Which "
        "input positions reach the output at position 0?",
        given={"attends_to": torch.cat(targets)},
        slots=(Slot("reached", (8,), element_type="flags"),),
        mark=mark,
    )
