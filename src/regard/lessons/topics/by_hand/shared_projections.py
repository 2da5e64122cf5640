"""One projection shared between queries and keys forces symmetric scores.

    s_ij = (W x_i)·(W x_j) = s_ji

Shapes: h heads, n positions, d head width.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from regard.attention.function import HeadShape
from regard.attention.kinds import Projections
from regard.attention.kinds.dot import Dot, DotProduct
from regard.attention.multi_head import MultiHeadAttention, build_mixer
from regard.lessons import (
    Lesson,
    LessonTable,
    Range,
    Seed,
    above,
    below,
    heatmap,
    lesson,
    near,
    standard_normal,
)


@lesson("shared-projections", topic="attention by hand", title="Shared Q and K: symmetric scores")
def shared_projections(
    *,
    positions: Annotated[int, Range(2, 12)] = 6,
    heads: Annotated[int, Range(1, 4)] = 2,
    width: Annotated[int, Range(2, 32)] = 8,
    seed: Seed = 0,
) -> Lesson:
    """What can attention no longer express when queries and keys share one projection?

    With W_q = W_k the score of query i on key j is (W x_i)·(W x_j), the same as that of query j on
    key i: a verb cannot attend to its subject unless the subject attends to the verb with the same
    score. The position with the longest W x even scores highest on itself, by Cauchy–Schwarz. The
    weights are not symmetric, since each row has its own softmax denominator z_i; but
    w_ij·z_i = w_ji·z_j. Sharing saves one width² matrix (and its bias).
    """
    x = standard_normal(1, positions, heads * width, seed=seed)
    shape = HeadShape(width, heads)
    mixers = {name: random_attention(name, shape, seed=seed) for name in SHARINGS}
    scores = {name: _scores(mixer, x) for name, mixer in mixers.items()}
    shared = scores["shared-qk"]
    longest = int(shared.diagonal(dim1=-2, dim2=-1)[0].argmax())
    denominators = shared.exp().sum(dim=-1, keepdim=True)
    everywhere = torch.ones_like(shared, dtype=torch.bool)
    unnormalised = DotProduct().normalise(shared, everywhere) * denominators / shared.exp().max()
    labels = [str(number + 1) for number in range(positions)]
    return Lesson(
        table=LessonTable(
            ("projections", "largest |s_ij − s_ji|", "parameters"),
            [
                (name, _asymmetry(found), sum(p.numel() for p in mixers[name].parameters()))
                for name, found in scores.items()
            ],
        ),
        chart=heatmap(
            shared[0].tolist(),
            row_labels=labels,
            column_labels=labels,
            title="score, shared Q and K",
        ),
        caption="Scores of the first head with shared Q and K: a symmetric matrix.",
        checks=[
            near("asymmetry, shared Q = K", _asymmetry(shared), 0, within=1e-12),
            near("asymmetry, shared Q = K = V", _asymmetry(scores["shared-qkv"]), 0, within=1e-12),
            above("asymmetry, separate", _asymmetry(scores["separate"]), 0.01),
            near(
                "w_ij·z_i − w_ji·z_j, relative to the largest",
                _asymmetry(unnormalised),
                0,
                within=1e-12,
            ),
            below(
                "largest score of the longest W x on others, minus that on itself",
                float((shared[0, longest] - shared[0, longest, longest]).max()),
                1e-12,
            ),
        ],
        see_also=["attention/multi_head.py", "recipes/projections.toml"],
    )


SHARINGS: tuple[Projections, ...] = ("separate", "shared-qk", "shared-qkv")


def random_attention(
    projections: Projections, shape: HeadShape, *, seed: int
) -> MultiHeadAttention:
    """A `MultiHeadAttention` with random parameters large enough for scores to differ."""
    mixer = build_mixer(Dot(), shape, projections=projections).double().requires_grad_(False)
    assert isinstance(mixer, MultiHeadAttention)
    generator = torch.Generator().manual_seed(seed)
    for parameter in mixer.parameters():
        scale = shape.model_width**-0.5
        parameter.copy_(
            scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        )
    return mixer


def _scores(mixer: MultiHeadAttention, x: Tensor) -> Tensor:
    """(h,n,n)"""
    keys, _ = mixer.project_keys_values(x)
    queries = mixer.query(x).view(1, -1, mixer.shape.heads, mixer.shape.width).transpose(1, 2)
    return mixer.function.scores(queries, keys)[0]


def _asymmetry(scores: Tensor) -> float:
    return float((scores - scores.transpose(-2, -1)).abs().max())
