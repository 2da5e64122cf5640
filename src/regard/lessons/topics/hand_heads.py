"""Multi-head attention: its shapes step by step, why scores are scaled, how far argmax sees.

Shapes: b batch, h heads, i query, j key, d head width, w model width.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.kinds.dot import DotProduct
from regard.attention.kinds.hard import BestKey
from regard.attention.mask import bidirectional
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.places import Places
from regard.attention.rule import HeadShape, Rule
from regard.lessons.catalogue import lesson
from regard.lessons.charts import bars, curves
from regard.lessons.exercise import Answer, Mark, Posed, Slot, exercise
from regard.lessons.lesson import Lesson, Table, above, below, equal, near
from regard.lessons.parameters import Range, Seed
from regard.lessons.topics.hand_self_attention import drawn_attention


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
    found = mixer(x, mask=bidirectional(), places=Places.of_row(length), want_weights=True)
    expected, weights = _torchs_own(mixer)(x, x, x, average_attn_weights=False)
    steps = _steps(mixer, x)
    of_scores = [batch, heads, length, length]
    joined = mixer.out(steps["heads side by side"][0])
    return Lesson(
        table=Table(
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
        "x W_q": (q_row, "b, n, w"),
        "queries (keys, values)": (q, "b, h, n, d"),
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


@lesson("scaling", topic="attention by hand", title="Why scores are divided by √d")
def scaling(
    *,
    keys: Annotated[int, Range(4, 64)] = 32,
    queries: Annotated[int, Range(100, 300)] = 200,
    seed: Seed = 0,
) -> Lesson:
    """What goes wrong when q·k is not divided by √d?

    If the parts of q and k are independent with variance 1, q·k is a sum of d such products and
    has variance d. At d = 512 scores differ by dozens, the softmax puts nearly all weight on one
    key, and its derivative diag(w) − wwᵀ is nearly zero: nothing is learnt. Divided by √d the
    scores have variance 1 at every width, and weights and gradients no longer depend on it.
    """
    widths = [2 * 4**power for power in range(5)]
    found = {d: _scaled_and_not(d, keys, queries, seed=seed) for d in widths}
    slope = _slope(widths, [found[d]["q·k"].variance for d in widths])
    rows = [
        {"d": d, "gradient of the softmax": one.gradient, "scores": name}
        for d in widths
        for name, one in found[d].items()
    ]
    wide = found[512]
    variances = torch.tensor([found[d]["q·k/√d"].variance for d in widths])
    return Lesson(
        table=Table(
            ("d", "scores", "variance", "largest weight", "gradient"),
            [
                (d, name, one.variance, one.largest, one.gradient)
                for d in widths
                for name, one in found[d].items()
            ],
        ),
        chart=curves(rows, x="d", y="gradient of the softmax", series="scores", log="xy"),
        caption="What the softmax passes on of a gradient, for the median query, against the "
        "head's width: without the root it fades, with it it stays.",
        checks=[
            near("growth of the variance of q·k, as a power of d", slope, 1, within=0.05),
            near("variance of q·k/√d, at every d", variances, torch.ones(5), within=0.25),
            above("largest weight at d = 512, not scaled", wide["q·k"].largest, 0.85),
            below("largest weight at d = 512, scaled", wide["q·k/√d"].largest, 0.6),
            below(
                "gradient at d = 512, not scaled against scaled",
                wide["q·k"].gradient / wide["q·k/√d"].gradient,
                0.05,
            ),
        ],
        see=["attention/kinds/dot.py", "recipes/dot-vs-additive.toml"],
    )


class Saturation(NamedTuple):
    """How peaked weights are: variance of scores, mean largest weight, median gradient."""

    variance: float
    largest: float
    gradient: float


def _scaled_and_not(d: int, keys: int, queries: int, *, seed: int) -> dict[str, Saturation]:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(queries, 1, d, generator=generator, dtype=torch.float64)
    k = torch.randn(queries, keys, d, generator=generator, dtype=torch.float64)
    probe = torch.randn(queries, keys, generator=generator, dtype=torch.float64)
    scores = DotProduct().scores(q, k)[:, 0]  # divided by √d
    return {
        "q·k": _saturation(math.sqrt(d) * scores, probe),
        "q·k/√d": _saturation(scores, probe),
    }


def _saturation(scores: Tensor, probe: Tensor) -> Saturation:
    scores = scores.clone().requires_grad_()
    weights = DotProduct().normalise(scores, torch.ones_like(scores, dtype=torch.bool))
    (passed_on,) = torch.autograd.grad(weights, scores, probe)
    return Saturation(
        float(scores.detach().var()),
        float(weights.detach().max(dim=-1).values.mean()),
        float(passed_on.norm(dim=-1).median()),
    )


def _slope(xs: list[int], ys: list[float]) -> float:
    """The power with which y grows with x, by least squares of the logarithms."""
    x, y = (torch.tensor(values, dtype=torch.float64).log() for values in (xs, ys))
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


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
        table=Table(
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


def _ahead(heads: int, layer: int, places: int) -> Tensor:
    """(h,n): where each head looks from each place, so that no two ways meet."""
    steps = torch.arange(1, heads + 1)[:, None] * (heads + 1) ** layer
    there: Tensor = (torch.arange(places) + steps) % places
    return there


def _reached(layers: list[Tensor], rule: Rule) -> int:
    """From how many places there is a gradient to the first place's output."""
    places = layers[0].shape[1]
    marks = torch.eye(places, dtype=torch.float64)
    x = torch.ones(places, 1, dtype=torch.float64, requires_grad=True)
    row = x
    for looks_at in layers:
        queries, keys = marks[looks_at], marks.expand(len(looks_at), -1, -1)
        values = row.expand(len(looks_at), -1, -1)
        row = row + attend(queries[None], keys[None], values[None], rule=rule).out[0].sum(dim=0)
    (gradient,) = torch.autograd.grad(row[0, 0], x)
    return int((gradient != 0).sum())


@exercise("receptive-field")
def receptive_field_exercise(seed: int) -> Posed:
    generator = torch.Generator().manual_seed(seed)
    looks_at = [torch.randint(8, (1, 8), generator=generator) for _ in range(3)]
    marks, x = torch.eye(8, dtype=torch.float64), torch.ones(8, 1, dtype=torch.float64)
    x.requires_grad_()
    row = x
    for one in looks_at:
        row = (
            row
            + attend(marks[one][None], marks[None, None], row[None, None], rule=BestKey()).out[0, 0]
        )
    (gradient,) = torch.autograd.grad(row[0, 0], x)
    seen = gradient[:, 0] != 0

    def mark(answer: Answer) -> Mark:
        wrong = int((answer["seen"] != seen).sum())
        says = f"{wrong} of 8 places are wrong; 3 layers of one head see at most 2³ = 8."
        return Mark(float(wrong), 0.0, says)

    return Posed(
        task="Three layers of one argmax head with residuals, 8 places. looks_at[l][i] is the "
        "place (from 0) that place i looks at in layer l. Which input places reach the output "
        "of place 0?",
        given={"looks_at": torch.cat(looks_at)},
        slots=(Slot("seen", (8,), of="flags"),),
        mark=mark,
    )
