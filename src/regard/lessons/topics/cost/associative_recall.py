"""Associative recall: one layer of dot-product attention learns it, a synthesizer cannot.

Tay et al., 2020 (Synthesizer). Shapes: b sequences, n key–value pairs, w width. Masks: True = may
attend.
"""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.function import AttentionOutput, HeadShape
from regard.attention.kinds import AttentionKind
from regard.attention.kinds.dot import Dot
from regard.attention.kinds.synthesizer_dense import SynthesizerDense
from regard.attention.kinds.synthesizer_random import SynthesizerRandom
from regard.attention.masks.mask import bidirectional
from regard.attention.mixer import Mixer
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.lessons import (
    Lesson,
    LessonTable,
    Range,
    Seed,
    above,
    below,
    lesson,
    line_chart,
    max_difference,
    near,
)
from regard.models.init_weights import init_weights

HEADS = 2
BATCH_SIZE = 64
TEST_SIZE = 2000
EVALUATE_EVERY = 25
"Steps between two points of the curve."


@lesson(
    "synthesizer-look-up",
    topic="kinds and cost",
    title="A synthesizer cannot look up by content",
    duration="a minute",
)
def synthesizer_look_up(
    *,
    pairs: Annotated[int, Range(4, 10)] = 6,
    steps: Annotated[int, Range(200, 600)] = 300,
    seed: Seed = 0,
) -> Lesson:
    """Can attention whose weights do not depend on the keys retrieve the value of a given key?

    Not in one layer. A sequence contains n key–value pairs in random order and then one of the
    keys; the target is its value. Dot-product attention compares this query with every key and
    learns the task. A synthesizer computes its weights from the query's own hidden state (dense) or
    from positions alone (random): when the pairs are permuted its weights stay bit for bit the
    same, and its output is a fixed mixture, from which the accuracy is that of chance, 1/n.

    This says nothing about deeper models: a further layer or MLP can still decode the mixture if it
    is wide enough to represent the whole sequence, which is not retrieval by content.
    """
    kinds: dict[str, AttentionKind] = {
        "dot": Dot(),
        "dense synthesizer": SynthesizerDense(),
        "random synthesizer": SynthesizerRandom(),
    }
    curve_rows, accuracy, weight_change = [], {}, {}
    for name, kind in kinds.items():
        model = OneLayer(kind, pairs, seed=seed)
        for step, value in _train(model, pairs, steps=steps, seed=seed):
            curve_rows.append({"step": step, "accuracy": value, "attention": name})
        accuracy[name] = _accuracy(model, *_draw_batch(TEST_SIZE, pairs, seed=seed + 1))
        weight_change[name] = _weight_change(model, pairs, seed=seed)
    chance = 1 / pairs
    return Lesson(
        table=LessonTable(
            ("attention", "accuracy", "chance", "weight change, pairs permuted"),
            [(name, accuracy[name], chance, weight_change[name]) for name in kinds],
        ),
        chart=line_chart(curve_rows, x="step", y="accuracy", series="attention", reference=chance),
        caption=f"Accuracy during training, {pairs} pairs per sequence; the dashed line is chance.",
        checks=[
            above("accuracy, dot", accuracy["dot"], 0.95),
            *(
                near(f"accuracy, {name}", accuracy[name], chance, within=0.08)
                for name in kinds
                if name != "dot"
            ),
            above("weight change when pairs are permuted, dot", weight_change["dot"], 0.1),
            *(
                below(f"weight change when pairs are permuted, {name}", weight_change[name], 0)
                for name in kinds
                if name != "dot"
            ),
        ],
        see_also=[
            "attention/kinds/synthesizer_dense.py",
            "attention/kinds/synthesizer_random.py",
            "recipes/full/birthplaces-study.toml",
        ],
    )


class OneLayer(nn.Module):
    """One attention layer and a linear classifier on its output at the last position."""

    def __init__(self, kind: AttentionKind, pairs: int, *, seed: int) -> None:
        super().__init__()
        width = 2 * pairs  # one-hot key and one-hot value
        shape = HeadShape(width // HEADS, heads=HEADS, context=pairs + 1)
        self.attention: Mixer = build_mixer(kind, shape)
        self.answer = nn.Linear(width, pairs)
        init_weights(self, seed=seed, layers=1, std=0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        """(b,n+1,w) -> logits (b,n)"""
        return torch.as_tensor(self.answer(self._attend(inputs).out[:, -1]))

    def weights(self, inputs: Tensor) -> Tensor:
        """(b,h,n+1): attention weights of the last position."""
        return torch.as_tensor(self._attend(inputs, need_weights=True).weights)[:, :, -1]

    def _attend(self, inputs: Tensor, *, need_weights: bool = False) -> AttentionOutput:
        positions = TokenPositions.of_row(inputs.shape[1])
        out: AttentionOutput = self.attention(
            inputs, mask=bidirectional(), positions=positions, need_weights=need_weights
        )
        return out


def _draw_batch(size: int, pairs: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Sequences of key–value pairs in random order, then one key; the target is its value.

    Inputs are one-hot keys and values, concatenated (b,n+1,2n), targets (b). Each key and each
    value occurs once per sequence: values alone carry no information."""
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.rand(2, size, pairs, generator=generator).argsort(dim=-1)
    position = torch.randint(pairs, (size, 1), generator=generator)
    queried_key, targets = keys.gather(1, position), values.gather(1, position)[:, 0]
    key_values = torch.cat((F.one_hot(keys, pairs), F.one_hot(values, pairs)), dim=-1)
    query = F.pad(F.one_hot(queried_key, pairs), (0, pairs))
    return torch.cat((key_values, query), dim=1).float(), targets


def _train(model: OneLayer, pairs: int, *, steps: int, seed: int) -> list[tuple[int, float]]:
    """Train on a new batch at each step; returns (step, accuracy)."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    dev = _draw_batch(500, pairs, seed=seed + 2)
    curve = [(0, _accuracy(model, *dev))]
    for step in range(1, steps + 1):
        inputs, targets = _draw_batch(BATCH_SIZE, pairs, seed=(seed + 3) * 1000 + step)
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % EVALUATE_EVERY == 0:
            curve.append((step, _accuracy(model, *dev)))
    return curve


@torch.no_grad()
def _accuracy(model: OneLayer, inputs: Tensor, targets: Tensor) -> float:
    return float((model(inputs).argmax(dim=-1) == targets).double().mean())


@torch.no_grad()
def _weight_change(model: OneLayer, pairs: int, *, seed: int) -> float:
    """Largest change of the last position's weights when the pairs are reversed."""
    inputs, _ = _draw_batch(50, pairs, seed=seed)
    reversed_pairs = torch.cat((inputs[:, :-1].flip(1), inputs[:, -1:]), dim=1)
    return max_difference(model.weights(inputs), model.weights(reversed_pairs))
