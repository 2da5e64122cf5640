"""Tensor shapes of multi-head attention, step by step.

Shapes: b batch, h heads, n positions, d head width, w model width.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.masks.mask import bidirectional
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.token_positions import TokenPositions
from regard.lessons import (
    Lesson,
    LessonTable,
    Range,
    Seed,
    bar_chart,
    equal,
    lesson,
    near,
    standard_normal,
)
from regard.lessons.topics.by_hand.shared_projections import random_attention


@lesson("multi-head-shapes", topic="attention by hand", title="Shapes of multi-head attention")
def multi_head_shapes(
    *,
    batch: Annotated[int, Range(1, 8)] = 2,
    length: Annotated[int, Range(1, 64)] = 7,
    heads: Annotated[int, Range(1, 8)] = 4,
    width: Annotated[int, Range(1, 32)] = 6,
    seed: Seed = 0,
) -> Lesson:
    """Which tensor shapes occur in multi-head attention, step by step?

    A sequence of n positions of width w is projected to h queries, keys and values of width
    d = w/h per position; each head has its own n × n matrix of scores, and the heads' outputs are
    concatenated before the output projection mixes them. Only scores and weights grow with n². With
    the same parameters regard's attention has the outputs and weights of
    `torch.nn.MultiheadAttention`.
    """
    shape = HeadShape(width, heads)
    mixer = random_attention("separate", shape, seed=seed)
    x = standard_normal(batch, length, shape.model_width, seed=seed + 1)
    found = mixer(
        x, mask=bidirectional(), positions=TokenPositions.of_row(length), need_weights=True
    )
    expected, weights = _torch_attention(mixer)(x, x, x, average_attn_weights=False)
    steps = _steps(mixer, x)
    return Lesson(
        table=LessonTable(
            ("step", "axes", "shape"),
            [
                (name, axes, " × ".join(map(str, tensor.shape)))
                for name, (tensor, axes) in steps.items()
            ],
        ),
        chart=bar_chart(
            [{"step": name, "elements": tensor.numel()} for name, (tensor, _) in steps.items()],
            name="step",
            value="elements",
        ),
        caption="Elements per tensor: only scores and weights grow with n².",
        checks=[
            near("output vs nn.MultiheadAttention", found.out, expected, within=1e-12),
            near("weights vs nn.MultiheadAttention", found.weights, weights, within=1e-12),
            near("step by step vs forward", steps["output"][0], found.out, within=1e-12),
            equal(
                "shape of the scores",
                list(steps["scores"][0].shape),
                [batch, heads, length, length],
            ),
        ],
        see_also=["attention/multi_head.py", "attention/attend.py", "recipes/mini-gpt.toml"],
    )


def _steps(mixer: MultiHeadAttention, x: Tensor) -> dict[str, tuple[Tensor, str]]:
    """Every intermediate tensor of the mixer, in order, with the names of its axes."""
    b, n, _ = x.shape
    projected = mixer.query(x)
    q = projected.view(b, n, mixer.shape.heads, mixer.shape.width).transpose(1, 2)
    k, v = mixer.project_keys_values(x)
    scores = mixer.function.scores(q, k)
    weights = mixer.function.normalise(scores, bidirectional().dense(n, n))
    mixed = mixer.function.mix(weights, v)
    concatenated = mixed.transpose(1, 2).flatten(2)
    return {
        "inputs x": (x, "b, n, w"),
        "query projection": (projected, "b, n, w"),
        "queries per head": (q, "b, h, n, d"),
        "scores": (scores, "b, h, n, n"),
        "weights": (weights, "b, h, n, n"),
        "mixed values": (mixed, "b, h, n, d"),
        "concatenated heads": (concatenated, "b, n, w"),
        "output": (mixer.out(concatenated), "b, n, w"),
    }


def _torch_attention(mixer: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's module with the parameters of ours."""
    width = mixer.shape.model_width
    theirs = nn.MultiheadAttention(width, mixer.shape.heads, batch_first=True, dtype=torch.float64)
    assert mixer.key is not None
    assert mixer.value is not None
    ours = (mixer.query, mixer.key, mixer.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([one.weight for one in ours]))
        theirs.in_proj_bias.copy_(torch.cat([one.bias for one in ours]))
        theirs.out_proj.weight.copy_(mixer.out.weight)
        theirs.out_proj.bias.copy_(mixer.out.bias)
    return theirs
