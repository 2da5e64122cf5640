"""Multi-head attention: its shapes step by step.

Shapes: b batch, h heads, n places, d head width, w model width.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.masks.mask import bidirectional
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.token_positions import TokenPositions
from regard.lessons.lesson import Lesson, LessonTable, equal, near
from regard.lessons.lesson_charts import bars
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.lessons.topics.by_hand.sharing import drawn_attention


@lesson("multi-head-shapes", topic="attention by hand", title="Shapes of multi-head attention")
def multi_head_shapes(
    *,
    batch: Annotated[int, Range(1, 8)] = 2,
    length: Annotated[int, Range(1, 64)] = 7,
    heads: Annotated[int, Range(1, 8)] = 4,
    width: Annotated[int, Range(1, 32)] = 6,
    seed: Seed = 0,
) -> Lesson:
    """Which shapes does multi-head attention go through, step by step?

    A row of n places of width w becomes h queries, keys and values of width d = w/h for each place;
    each head has a table of n × n scores of its own, and the heads' outputs stand side by side
    again before the last matrix mixes them. Only that table grows with n². regard's attention with
    the same matrices gives what `torch.nn.MultiheadAttention` gives, and the same weights.
    """
    shape = HeadShape(width, heads)
    mixer = drawn_attention("separate", shape, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    size = (batch, length, shape.model_width)
    x = torch.randn(size, generator=generator, dtype=torch.float64)
    found = mixer(
        x, mask=bidirectional(), positions=TokenPositions.of_row(length), want_weights=True
    )
    expected, weights = _torchs_own(mixer)(x, x, x, average_attn_weights=False)
    steps = _steps(mixer, x)
    of_scores = [batch, heads, length, length]
    joined = mixer.out(steps["heads side by side"][0])
    return Lesson(
        table=LessonTable(
            ("step", "shape", "sizes"),
            [(name, letters, _sizes(one)) for name, (one, letters) in steps.items()],
        ),
        chart=bars(
            [{"step": name, "numbers": one.numel()} for name, (one, _) in steps.items()],
            name="step",
            value="numbers",
        ),
        caption="How many numbers each step holds: scores and weights alone grow with n².",
        checks=[
            near("output, against nn.MultiheadAttention", found.out, expected, within=1e-12),
            near("weights, against nn.MultiheadAttention", found.weights, weights, within=1e-12),
            near("the steps one by one, against the whole", joined, found.out, within=1e-12),
            equal("sizes of the scores", list(steps["scores"][0].shape), of_scores),
        ],
        see=["attention/multi_head.py", "attention/attend.py", "recipes/mini-gpt.toml"],
    )


def _steps(mixer: MultiHeadAttention, x: Tensor) -> dict[str, tuple[Tensor, str]]:
    """Every intermediate result of the mixer, in its order, with its shape in letters."""
    b, n, _ = x.shape
    q_row = mixer.query(x)
    q = q_row.view(b, n, mixer.shape.heads, mixer.shape.width).transpose(1, 2)
    k, v = mixer.keys_and_values(x)
    scores = mixer.rule.scores(q, k)
    weights = mixer.rule.normalise(scores, bidirectional().dense(n, n))
    mixed = mixer.rule.mix(weights, v)
    together = mixed.transpose(1, 2).flatten(2)
    return {
        "places x": (x, "b, n, w"),
        "rows times W": (q_row, "b, n, w"),
        "queries, by head": (q, "b, h, n, d"),
        "scores": (scores, "b, h, n, n"),
        "weights": (weights, "b, h, n, n"),
        "mixed values": (mixed, "b, h, n, d"),
        "heads side by side": (together, "b, n, w"),
        "output": (mixer.out(together), "b, n, w"),
    }


def _sizes(one: Tensor) -> str:
    return " × ".join(map(str, one.shape))


def _torchs_own(mixer: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's module with the very matrices of ours."""
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
