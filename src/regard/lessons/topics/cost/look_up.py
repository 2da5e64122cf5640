"""A synthesizer cannot look up by content in one layer: trained on a look-up that dot solves.

Tay et al., 2020 (Synthesizer). Shapes: b rows, n pairs of a key and a value, w width. Masks:
True = may attend.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.function import HeadShape
from regard.attention.kinds import AttentionKind
from regard.attention.kinds.dot import Dot
from regard.attention.kinds.synthesizer_dense import SynthesizerDense
from regard.attention.kinds.synthesizer_random import SynthesizerRandom
from regard.attention.masks.mask import bidirectional
from regard.attention.mixer import Mixer
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.lessons.lesson import Lesson, LessonTable, above, below, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.init_weights import init_weights

HEADS = 2
ROWS = 64
MEASURED = 2000
EVERY = 25
"Steps between two points of the curve."


class LookUps(NamedTuple):
    """Rows of pairs in random order and then a key alone; the value that belongs to it."""

    rows: Tensor
    "(b,n+1,2n): key beside value, each as a place in the count; the last row has no value"
    answers: Tensor
    "(b)"


@lesson(
    "synthesizer-look-up",
    topic="kinds and cost",
    title="A synthesizer cannot look up",
    takes="a minute",
)
def synthesizer_look_up(
    *,
    pairs: Annotated[int, Range(4, 10)] = 6,
    steps: Annotated[int, Range(200, 600)] = 300,
    seed: Seed = 0,
) -> Lesson:
    """Can attention whose weights never meet a key find the value that belongs to one?

    Not in one layer. A row holds n pairs of a key and a value in random order, and then one of the
    keys; its value is asked for. Dot-product attention compares the asked key with each of the
    others and learns the task. A synthesizer writes its weights from the asked key's own vector
    (dense) or from places alone (random): when the pairs change places its weights stay, bit for
    bit, and all it can give is a fixed mixture, from which one guesses right once in n times.

    Nothing is said here of deeper models: a network or a layer behind the mixture can still pick it
    apart if it is wide enough to hold the whole row, which is not looking up.
    """
    kinds: dict[str, AttentionKind] = {
        "dot": Dot(),
        "dense synthesizer": SynthesizerDense(),
        "random synthesizer": SynthesizerRandom(),
    }
    rows, right, moved = [], {}, {}
    for name, kind in kinds.items():
        model = OneLayer(kind, pairs, seed=seed)
        for step, share in _trained(model, pairs, steps=steps, seed=seed):
            rows.append({"step": step, "share of right answers": share, "attention": name})
        right[name] = _right(model, _drawn(MEASURED, pairs, seed=seed + 1))
        moved[name] = _moved(model, pairs, seed=seed)
    chance = 1 / pairs
    return Lesson(
        table=LessonTable(
            ("attention", "right answers", "guessing", "weights move with pairs by"),
            [(name, right[name], chance, moved[name]) for name in kinds],
        ),
        chart=curves(rows, x="step", y="share of right answers", series="attention", level=chance),
        caption=f"Right answers on the way, {pairs} pairs a row; the dashed line is guessing.",
        checks=[
            above("right answers, dot", right["dot"], 0.95),
            *(
                near(f"right answers, {name}", right[name], chance, within=0.08)
                for name in kinds
                if name != "dot"
            ),
            above("weights move with the pairs, dot", moved["dot"], 0.1),
            *(
                below(f"weights move with the pairs, {name}", moved[name], 0)
                for name in kinds
                if name != "dot"
            ),
        ],
        see=[
            "attention/kinds/synthesizer_dense.py",
            "attention/kinds/synthesizer_random.py",
            "recipes/full/birthplaces-study.toml",
        ],
    )


class OneLayer(nn.Module):
    """One layer of attention, and what it gives at the last place read off by one matrix."""

    def __init__(self, kind: AttentionKind, pairs: int, *, seed: int) -> None:
        super().__init__()
        width = 2 * pairs  # a place for each key, one for each value
        shape = HeadShape(width // HEADS, heads=HEADS, context=pairs + 1)
        self.attention: Mixer = build_mixer(kind, shape)
        self.answer = nn.Linear(width, pairs)
        init_weights(self, seed=seed, layers=1, deviation=0.5)

    def forward(self, rows: Tensor) -> Tensor:
        """(b,n+1,w) -> (b,n)"""
        positions = TokenPositions.of_row(rows.shape[1])
        out = self.attention(rows, mask=bidirectional(), positions=positions).out
        answers: Tensor = self.answer(out[:, -1])
        return answers

    def weights(self, rows: Tensor) -> Tensor:
        """(b,h,n+1): what the last place looks at."""
        positions = TokenPositions.of_row(rows.shape[1])
        found = self.attention(rows, mask=bidirectional(), positions=positions, want_weights=True)
        last: Tensor = found.weights[:, :, -1]
        return last


def _drawn(rows: int, pairs: int, *, seed: int) -> LookUps:
    """Every key and every value once in a row, so that values alone tell nothing."""
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.rand(2, rows, pairs, generator=generator).argsort(dim=-1)
    place = torch.randint(pairs, (rows, 1), generator=generator)
    asked, answers = keys.gather(1, place), values.gather(1, place)[:, 0]
    held = torch.cat((F.one_hot(keys, pairs), F.one_hot(values, pairs)), dim=-1)
    query = F.pad(F.one_hot(asked, pairs), (0, pairs))
    return LookUps(torch.cat((held, query), dim=1).float(), answers)


def _trained(model: OneLayer, pairs: int, *, steps: int, seed: int) -> list[tuple[int, float]]:
    """Train on new rows at each step; the share of right answers on the way."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    told = _drawn(500, pairs, seed=seed + 2)
    curve = [(0, _right(model, told))]
    for step in range(1, steps + 1):
        batch = _drawn(ROWS, pairs, seed=(seed + 3) * 1000 + step)
        loss = F.cross_entropy(model(batch.rows), batch.answers)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % EVERY == 0:
            curve.append((step, _right(model, told)))
    return curve


@torch.no_grad()
def _right(model: OneLayer, look_ups: LookUps) -> float:
    told = model(look_ups.rows).argmax(dim=-1)
    return float((told == look_ups.answers).double().mean())


@torch.no_grad()
def _moved(model: OneLayer, pairs: int, *, seed: int) -> float:
    """The largest change of a weight of the last place when the pairs before it change places."""
    rows = _drawn(50, pairs, seed=seed).rows
    turned = torch.cat((rows[:, :-1].flip(1), rows[:, -1:]), dim=1)
    return float((model.weights(rows) - model.weights(turned)).abs().max())
