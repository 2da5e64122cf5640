"""Self-attention by hand: what it cannot give without projections, and what sharing them forces.

Shapes: n places, d width, h heads. Scores are plain inner products, as on paper.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.kinds import Projections
from regard.attention.kinds.dot import Dot, DotProduct
from regard.attention.multi_head import MultiHeadAttention, build_mixer
from regard.attention.rule import HeadShape
from regard.lessons.catalogue import lesson
from regard.lessons.charts import curves, heat
from regard.lessons.exercise import Answer, Mark, Posed, Slot, Weights, exercise
from regard.lessons.lesson import Lesson, Table, above, below, near
from regard.lessons.parameters import Range, Seed
from regard.lessons.plain import look_up, names, orthonormal

A, B, C, D = range(4)
"Which of four vectors at right angles is u_a, u_b, u_c, u_d."
NEAREST = math.sqrt(0.4)
"How near an average of x₁, x₂, x₃ comes to u_b, in β: by weights 0.4, 0.2, 0.4."


@lesson("self-attention-by-hand", topic="attention by hand", title="Self-attention by hand")
def self_attention_by_hand(
    *,
    beta: Annotated[float, Range(1, 20)] = 6,
    width: Annotated[int, Range(4, 32)] = 4,
    seed: Seed = 0,
) -> Lesson:
    """What can self-attention not say before it has queries, keys and values of its own?

    Let u_a … u_d stand at right angles, each of length β, and x₁ = u_d+u_b, x₂ = u_a, x₃ = u_c+u_b.
    With q = k = v = x, the largest inner product of x₂ is with itself, so c₂ ≈ u_a. Adding u_d or
    u_c to x₂ does not bring u_b: x₂ still resembles itself most. Nor could any other weights: every
    output is an average of x₁, x₂, x₃, where u_b never comes without u_d or u_c, and the nearest
    such average stays 0.63 β away.

    Matrices set it free. V = (u_b u_bᵀ − u_c u_cᵀ)/β² keeps what is wanted of each place, and
    Q = (u_d u_aᵀ + u_c u_dᵀ)/β² asks for it, with K = 1: then c₂ ≈ u_b and c₁ ≈ u_b − u_c.
    """
    u = beta * orthonormal(4, width, seed=seed)
    rest = 2 / (math.exp(beta**2) + 2)
    plain = {extra: _without_projections(u, added) for extra, added in _additions(u).items()}
    c = _projected(u, *_solution(u))
    distances = {extra: float((out - u[B]).norm()) / beta for extra, out in plain.items()}
    second, first = float((c[1] - u[B]).norm()), float((c[0] - (u[B] - u[C])).norm())
    return Lesson(
        table=Table(
            ("added to x₂", "distance of c₂ from u_b, in β"),
            [*distances.items(), ("nothing, and Q, K, V as above", second / beta)],
        ),
        chart=curves(
            _distances_by_length(width, seed),
            x="β",
            y="distance, in β",
            series="",
            level=NEAREST,
        ),
        caption="How far c₂ is from u_b, in units of β: without projections above the dashed line, "
        "under which no average of x₁, x₂, x₃ comes; with Q, K and V it goes to 0.",
        checks=[
            below("c₂ from u_a", (plain["nothing"] - u[A]).norm(), 2 * beta * rest + 1e-12),
            *(
                above(f"c₂ from u_b in β, {extra} added", found, NEAREST - 1e-12)
                for extra, found in distances.items()
            ),
            below("c₂ from u_b with Q, K, V", second, 2 * beta * rest + 1e-12),
            below("c₁ from u_b − u_c with Q, K, V", first, 2 * beta * rest + 1e-12),
        ],
        see=["attention/multi_head.py", "attention/attend.py", "recipes/projections.toml"],
    )


def _row(u: Tensor, added: Tensor) -> Tensor:
    """x₁, x₂ + added, x₃: (3,d)"""
    return torch.stack((u[D] + u[B], u[A] + added, u[C] + u[B]))


def _additions(u: Tensor) -> dict[str, Tensor]:
    return {"nothing": torch.zeros_like(u[A]), "u_d": u[D], "u_c": u[C]}


def _without_projections(u: Tensor, added: Tensor) -> Tensor:
    """c₂ where queries, keys and values are the places themselves."""
    x = _row(u, added)
    return look_up(x, x, x).out[1]


def _solution(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Q, K, V (d,d) that give c₂ ≈ u_b and c₁ ≈ u_b − u_c."""
    squared = u[A] @ u[A]
    q = (torch.outer(u[D], u[A]) + torch.outer(u[C], u[D])) / squared
    v = (torch.outer(u[B], u[B]) - torch.outer(u[C], u[C])) / squared
    return q, torch.eye(len(q), dtype=torch.float64), v


def _projected(u: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """c₁, c₂, c₃ with these matrices: (3,d)"""
    x = _row(u, torch.zeros_like(u[A]))
    return look_up(x @ q.T, x @ k.T, x @ v.T).out


def _distances_by_length(width: int, seed: int) -> list[dict[str, float | str]]:
    rows: list[dict[str, float | str]] = []
    for beta in (1 + 0.25 * step for step in range(17)):
        u = beta * orthonormal(4, width, seed=seed)
        found = {
            "q = k = v = x": _without_projections(u, torch.zeros_like(u[A])),
            "u_d added to x₂": _without_projections(u, u[D]),
            "Q, K and V": _projected(u, *_solution(u))[1],
        }
        for name, out in found.items():
            rows.append({"β": beta, "distance, in β": float((out - u[B]).norm()) / beta, "": name})
    return rows


@exercise("self-attention-by-hand")
def self_attention_exercise(seed: int) -> Posed:
    u = torch.round(6 * orthonormal(4, 4, seed=seed), decimals=4)
    x = _row(u, torch.zeros_like(u[A]))

    def mark(answer: Answer) -> Mark:
        found = look_up(x @ answer["Q"].T, x @ answer["K"].T, x @ answer["V"].T)
        assert found.weights is not None
        second, first = (found.out[1] - u[B]).norm(), (found.out[0] - u[B] + u[C]).norm()
        says = f"c₂ is {float(second):.3g} from u_b, c₁ is {float(first):.3g} from u_b − u_c."
        drawn = Weights(names(3, "x"), names(3, "x"), found.weights)
        return Mark(max(float(second), float(first)), 0.05, says, drawn)

    return Posed(
        task="x₁ = u_d + u_b, x₂ = u_a, x₃ = u_c + u_b; q = Q x, k = K x, v = V x, no scaling. "
        "Find Q, K and V (4 × 4 each) with c₂ = u_b and c₁ = u_b − u_c, within 0.05.",
        given={"u_a": u[A], "u_b": u[B], "u_c": u[C], "u_d": u[D]},
        slots=(Slot("Q", (4, 4)), Slot("K", (4, 4)), Slot("V", (4, 4))),
        mark=mark,
    )


@lesson("shared-projections", topic="attention by hand", title="Shared Q and K: symmetric scores")
def shared_projections(
    *,
    places: Annotated[int, Range(2, 12)] = 6,
    heads: Annotated[int, Range(1, 4)] = 2,
    width: Annotated[int, Range(2, 32)] = 8,
    seed: Seed = 0,
) -> Lesson:
    """What can attention no longer say when queries and keys share one matrix?

    With W_q = W_k the score of i for j is (W x_i)·(W x_j), the same as that of j for i: a verb
    cannot look for its subject unless the subject looks for the verb just as much. A place of the
    longest vector W x even scores itself highest, by Cauchy and Schwarz. The weights are not
    symmetric, since each row has its own sum; but w_ij·z_i = w_ji·z_j with z the sums. The saving
    is one matrix of width² (and its bias).
    """
    x = torch.randn(
        1, places, heads * width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    scores = {name: _scores(name, x, heads, width, seed=seed) for name in SHARINGS}
    shared = scores["shared-qk"]
    longest = int(shared.diagonal(dim1=-2, dim2=-1)[0].argmax())
    sums = shared.exp().sum(dim=-1, keepdim=True)
    everywhere = torch.ones_like(shared, dtype=torch.bool)
    flows = DotProduct().normalise(shared, everywhere) * sums / shared.exp().max()
    labels = [str(number + 1) for number in range(places)]
    return Lesson(
        table=Table(
            ("projections", "largest |s_ij − s_ji|", "parameters"),
            [
                (name, _asymmetry(found), _parameters(name, heads, width))
                for name, found in scores.items()
            ],
        ),
        chart=heat(shared[0].tolist(), down=labels, across=labels, title="score, shared Q and K"),
        caption="Scores of the first head with shared Q and K: the map is its own mirror image.",
        checks=[
            near("asymmetry, shared Q = K", _asymmetry(shared), 0, within=1e-12),
            near("asymmetry, shared Q = K = V", _asymmetry(scores["shared-qkv"]), 0, within=1e-12),
            above("asymmetry, separate", _asymmetry(scores["separate"]), 0.01),
            near("w_ij·z_i − w_ji·z_j, of the largest", _asymmetry(flows), 0, within=1e-12),
            below(
                "what the longest place gives others above itself",
                float((shared[0, longest] - shared[0, longest, longest]).max()),
                1e-12,
            ),
        ],
        see=["attention/multi_head.py", "recipes/projections.toml"],
    )


SHARINGS: tuple[Projections, ...] = ("separate", "shared-qk", "shared-qkv")


def drawn_attention(projections: Projections, shape: HeadShape, *, seed: int) -> MultiHeadAttention:
    """The real thing, its matrices large enough for scores to differ."""
    mixer = build_mixer(Dot(), shape, projections=projections).double().requires_grad_(False)
    assert isinstance(mixer, MultiHeadAttention)
    generator = torch.Generator().manual_seed(seed)
    for parameter in mixer.parameters():
        scale = shape.model_width**-0.5
        parameter.copy_(
            scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        )
    return mixer


def _scores(name: Projections, x: Tensor, heads: int, width: int, *, seed: int) -> Tensor:
    """(h,n,n)"""
    mixer = drawn_attention(name, HeadShape(width, heads), seed=seed)
    keys, _ = mixer.keys_and_values(x)
    queries = mixer.query(x).view(1, -1, heads, width).transpose(1, 2)
    return mixer.rule.scores(queries, keys)[0]


def _asymmetry(scores: Tensor) -> float:
    return float((scores - scores.transpose(-2, -1)).abs().max())


def _parameters(name: Projections, heads: int, width: int) -> int:
    mixer = build_mixer(Dot(), HeadShape(width, heads), projections=name)
    return sum(parameter.numel() for parameter in mixer.parameters())
