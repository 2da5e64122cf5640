"""A mask after the softmax, trained on throws of a die: a loss that cannot be, worth nothing.

Shapes: b rows, t places. Masks: True = may attend.
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
from regard.lessons.lesson import Lesson, LessonTable, above, below, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.families.decoder import Decoder
from regard.models.model import Model

PLACES = 12
ROWS = 32
SMOOTHED = 10
"Steps whose mean loss is one point of the curve."


@lesson(
    "zero-masking-trained",
    topic="masks",
    title="A model that predicts a fair die",
    takes="a minute",
)
def zero_masking_trained(
    *,
    steps: Annotated[int, Range(200, 600)] = 250,
    faces: Annotated[int, Range(2, 8)] = 6,
    seed: Seed = 0,
) -> Lesson:
    """What does a language model learn when its mask comes after the softmax?

    Throws of a fair die cannot be predicted: no honest model has a loss below log 6 on throws that
    it has not seen. The decoder with −∞ before the softmax finds just that. With zeros after the
    softmax the loss falls far below, because every place feels the next throw in the sum it is
    divided by; only the last place of a row, which has no future, is left guessing.

    It is worth nothing: when the model has to write, the next throw is not there to be felt. Rows
    cut after each place show that: the loss is then worse than that of guessing.
    """
    kinds: dict[str, AttentionKind] = {
        "−∞ before the softmax": Dot(),
        "0 after the softmax": ZeroMasked(on_purpose=True),
    }
    rows, figures = [], {}
    for name, kind in kinds.items():
        model, losses = _trained(kind, steps=steps, faces=faces, seed=seed)
        for step, loss in losses:
            rows.append({"step": step, "training loss, nats": loss, "mask": name})
        figures[name] = _judged(model, faces=faces, seed=seed + 1)
    guessing = math.log(faces)
    honest, cheating = figures.values()
    return Lesson(
        table=LessonTable(
            ("mask", "loss, whole rows", "last place alone", "loss, future cut off", "guessing"),
            [(name, *found, guessing) for name, found in figures.items()],
        ),
        chart=curves(rows, x="step", y="training loss, nats", series="mask", level=guessing),
        caption="Training loss on throws of a die; the dashed line is the loss of guessing, below "
        "which no honest prediction can stay.",
        checks=[
            near("loss on new throws, −∞ before", honest[0], guessing, within=0.03),
            below("loss on new throws, 0 after", cheating[0], 0.5 * guessing),
            near("its last place, which has no future", cheating[1], guessing, within=0.1),
            above("its loss when the future is cut off", cheating[2], guessing),
            near("loss when cut off, −∞ before", honest[2], honest[0], within=1e-3),
        ],
        see=["attention/kinds/zero_masked.py", "audits/audit.py", "recipes/masking.toml"],
    )


def _trained(
    kind: AttentionKind, *, steps: int, faces: int, seed: int
) -> tuple[Model, list[tuple[int, float]]]:
    """A small decoder after so many steps on new throws each, and its mean losses on the way."""
    family = Decoder(
        layers=2,
        heads=4,
        width=32,
        mlp_width=64,
        context=PLACES,
        attention=kind,
        init_std=32**-0.5,
    )
    model = family.build(vocabulary=faces, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(seed)
    losses, sums = [], 0.0
    for step in range(1, steps + 1):
        loss = _loss(model, _throws(ROWS, faces, generator))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        sums += float(loss.detach())
        if step % SMOOTHED == 0:
            losses.append((step, sums / SMOOTHED))
            sums = 0.0
    return model.eval(), losses


@torch.no_grad()
def _judged(model: Model, *, faces: int, seed: int) -> tuple[float, float, float]:
    """On new throws: the loss, that of the last place alone, and with the future cut off."""
    throws = _throws(400, faces, torch.Generator().manual_seed(seed))
    cut = [float(_loss(model, _last_alone(throws, place))) for place in range(1, PLACES + 1)]
    last = float(_loss(model, _last_alone(throws, PLACES)))
    return float(_loss(model, throws)), last, sum(cut) / len(cut)


def _loss(model: Model, batch: Batch) -> Tensor:
    term = model(batch)["token"]
    loss: Tensor = term.sum / term.weight
    return loss


def _throws(rows: int, faces: int, generator: torch.Generator) -> Batch:
    thrown = torch.randint(faces, (rows, PLACES + 1), generator=generator)
    return Batch(
        ids=thrown[:, :-1],
        targets=thrown[:, 1:],
        weights=torch.ones(rows, PLACES),
        valid=torch.ones(rows, PLACES, dtype=torch.bool),
        segments=None,
        rows=tuple(range(rows)),
    )


def _last_alone(batch: Batch, positions: int) -> Batch:
    """The rows cut after so many places, of which the last alone counts."""
    weights = torch.zeros(len(batch.rows), positions)
    weights[:, -1] = 1.0
    return Batch(
        ids=batch.ids[:, :positions],
        targets=batch.targets[:, :positions],
        weights=weights,
        valid=batch.valid[:, :positions],
        segments=None,
        rows=batch.rows,
    )
