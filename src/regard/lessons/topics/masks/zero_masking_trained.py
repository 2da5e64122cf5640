"""A mask after the softmax, trained on rolls of a fair die: a loss below the entropy, by leakage.

Shapes: b batch, t positions. Masks: True = may attend.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.kinds import AttentionKind
from regard.attention.kinds.dot import Dot
from regard.attention.kinds.zero_masked import ZeroMasked
from regard.batch import Batch
from regard.lessons import Lesson, LessonTable, Range, Seed, above, below, lesson, line_chart, near
from regard.models.families.decoder import Decoder
from regard.models.model import Model

CONTEXT = 12
BATCH_SIZE = 32
LOG_EVERY = 10
"Steps whose mean loss is one point of the curve."


@lesson(
    "zero-masking-trained",
    topic="masks",
    title="A model that predicts a fair die",
    duration="a minute",
)
def zero_masking_trained(
    *,
    steps: Annotated[int, Range(200, 600)] = 250,
    faces: Annotated[int, Range(2, 8)] = 6,
    seed: Seed = 0,
) -> Lesson:
    """What does a language model learn when its mask is applied after the softmax?

    Rolls of a fair die cannot be predicted: without leakage no model has a loss below log 6 on
    unseen rolls. The decoder with −∞ before the softmax converges to it. With zeros after the
    softmax the loss falls far below, because the next roll leaks into every position through the
    softmax denominator; only the last position of a sequence, which has no future, does no
    better than chance.

    The low loss is useless: in generation the next roll is not there to leak. Evaluated on
    sequences truncated after each position, the loss is worse than chance.
    """
    kinds: dict[str, AttentionKind] = {
        "−∞ before the softmax": Dot(),
        "0 after the softmax": ZeroMasked(on_purpose=True),
    }
    curve_rows, results = [], {}
    for name, kind in kinds.items():
        model, losses = _train(kind, steps=steps, faces=faces, seed=seed)
        for step, loss in losses:
            curve_rows.append({"step": step, "training loss, nats": loss, "mask": name})
        results[name] = _evaluate(model, faces=faces, seed=seed + 1)
    chance = math.log(faces)
    causal, leaking = results.values()
    return Lesson(
        table=LessonTable(
            ("mask", "loss, full sequences", "last position only", "loss, truncated", "chance"),
            [(name, *losses, chance) for name, losses in results.items()],
        ),
        chart=line_chart(
            curve_rows, x="step", y="training loss, nats", series="mask", reference=chance
        ),
        caption="Training loss on rolls of a fair die; the dashed line is the loss of chance, "
        "which no model can beat without leakage.",
        checks=[
            near("loss on unseen rolls, −∞ before", causal[0], chance, within=0.03),
            below("loss on unseen rolls, 0 after", leaking[0], 0.5 * chance),
            above("loss at the last position, 0 after", leaking[1], 0.98 * chance),
            above("loss on truncated sequences, 0 after", leaking[2], chance),
            near("loss on truncated sequences, −∞ before", causal[2], causal[0], within=1e-3),
        ],
        see_also=["attention/kinds/zero_masked.py", "audits/audit.py", "recipes/masking.toml"],
    )


def _train(
    kind: AttentionKind, *, steps: int, faces: int, seed: int
) -> tuple[Model, list[tuple[int, float]]]:
    """A small decoder trained on new rolls at each step, and its mean losses by step."""
    family = Decoder(
        layers=2,
        heads=4,
        width=32,
        mlp_width=64,
        context=CONTEXT,
        attention=kind,
        init_std=32**-0.5,
    )
    model = family.build(vocabulary=faces, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(seed)
    losses, running_sum = [], 0.0
    for step in range(1, steps + 1):
        loss = _loss(model, _roll(BATCH_SIZE, faces, generator))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        running_sum += float(loss.detach())
        if step % LOG_EVERY == 0:
            losses.append((step, running_sum / LOG_EVERY))
            running_sum = 0.0
    return model.eval(), losses


@torch.no_grad()
def _evaluate(model: Model, *, faces: int, seed: int) -> tuple[float, float, float]:
    """On unseen rolls: loss, loss of the last position only, loss on truncated sequences."""
    rolls = _roll(400, faces, torch.Generator().manual_seed(seed))
    truncated = [float(_loss(model, _truncated(rolls, length))) for length in range(1, CONTEXT + 1)]
    last = float(_loss(model, _truncated(rolls, CONTEXT)))
    return float(_loss(model, rolls)), last, sum(truncated) / len(truncated)


def _loss(model: Model, batch: Batch) -> Tensor:
    term = model(batch)["token"]
    loss: Tensor = term.sum / term.weight
    return loss


def _roll(size: int, faces: int, generator: torch.Generator) -> Batch:
    rolls = torch.randint(faces, (size, CONTEXT + 1), generator=generator)
    return Batch(
        ids=rolls[:, :-1],
        targets=rolls[:, 1:],
        weights=torch.ones(size, CONTEXT),
        valid=torch.ones(size, CONTEXT, dtype=torch.bool),
        segments=None,
        rows=tuple(range(size)),
    )


def _truncated(batch: Batch, length: int) -> Batch:
    """The sequences truncated to this length; only the last position has a loss weight."""
    weights = torch.zeros(len(batch.rows), length)
    weights[:, -1] = 1.0
    return Batch(
        ids=batch.ids[:, :length],
        targets=batch.targets[:, :length],
        weights=weights,
        valid=batch.valid[:, :length],
        segments=None,
        rows=batch.rows,
    )
