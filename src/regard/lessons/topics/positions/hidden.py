"""Masked words whose places are hidden too: all of them become one and the same.

Devlin et al., 2019, keep the position of a masked token. Shapes: n places, m masked ones.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn

from regard.attention.masks.mask import bidirectional
from regard.attention.positions.learned import Learned
from regard.attention.token_positions import TokenPositions
from regard.lessons.lesson import Lesson, LessonTable, above, below, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.architectures.encoder_model import EncoderModel
from regard.models.families.encoder import Encoder

TEXT = ["Jill", "Birt", "likes", "outdoor", "activities", ".", "He", "was", "often", "hiking"]
WORDS = ["[MASK]", *dict.fromkeys(TEXT)]
WIDTH = 24
STEPS = 80
RATE = 0.15
KEPT, HIDDEN = "position kept", "position hidden too"


@lesson("hidden-positions", topic="positions", title="Masking the position too")
def hidden_positions(
    *,
    masked: Annotated[int, Range(2, 4)] = 3,
    seed: Seed = 0,
) -> Lesson:
    """What happens when a masked word's position is masked as well?

    All masked places then bring the same vector and stand at the same place, so they see the same
    and become the same: one distribution over words for all of them, whatever the weights. If the
    m hidden words differ, no distribution gives each more than its share, and the mean loss cannot
    go below log m; with their positions kept the same model learns the text by heart in a few
    steps. That is why masked language models hide the word and keep the place.
    """
    found = {way: _learnt(way, masked=masked, seed=seed) for way in (KEPT, HIDDEN)}
    bound = math.log(masked)
    rows = [
        {"step": step, "loss at masked places, nats": loss, "": way}
        for way, (losses, _, _) in found.items()
        for step, loss in enumerate(losses)
    ]
    return Lesson(
        table=LessonTable(
            ("", "masked places differ, at the start", "and after learning", "loss after learning"),
            [(way, before, after, losses[-1]) for way, (losses, before, after) in found.items()],
        ),
        chart=curves(rows, x="step", y="loss at masked places, nats", series="", level=bound),
        caption=f"One text learnt by heart, {masked} of its words masked; the dashed line is "
        f"log {masked}, the least that one answer for all of them can have.",
        checks=[
            near(
                "masked places differ by, position hidden, start", found[HIDDEN][1], 0, within=1e-12
            ),
            near("the same after learning", found[HIDDEN][2], 0, within=1e-12),
            above("masked places differ by, position kept", found[KEPT][1], 1e-6),
            above("lowest loss, position hidden", min(found[HIDDEN][0]), bound - 1e-9),
            near("loss after learning, position hidden", found[HIDDEN][0][-1], bound, within=0.1),
            below("loss after learning, position kept", found[KEPT][0][-1], 0.5 * bound),
        ],
        see=["objectives/masking.py", "objectives/masked.py", "recipes/mini-bert.toml"],
    )


def _learnt(way: str, *, masked: int, seed: int) -> tuple[list[float], float, float]:
    """The losses on the way, and how far masked places are apart before and after."""
    model = _encoder(seed=seed)
    chosen = torch.randperm(len(TEXT), generator=torch.Generator().manual_seed(seed))[:masked]
    targets = torch.tensor([WORDS.index(word) for word in TEXT])
    ids, positions = targets.clone(), torch.arange(len(TEXT))
    ids[chosen] = WORDS.index("[MASK]")
    if way == HIDDEN:
        positions[chosen] = len(TEXT)  # a place where nothing else stands
    parameters = [one for one in model.parameters() if one.requires_grad]
    losses, apart = [], []
    for step in range(STEPS + 1):
        x = model.hidden(ids[None], TokenPositions(positions[None]), mask=bidirectional())[
            0, chosen
        ]
        loss = model.head.losses(x, targets=targets[chosen]).mean()
        losses.append(float(loss.detach()))
        apart.append(_apart(x.detach()))
        # Smaller and smaller towards the end: otherwise some seeds go round the lowest loss.
        _descend(parameters, loss, rate=RATE * min(1.0, 2 - 2 * step / STEPS))
    return losses, apart[0], apart[-1]


def _descend(parameters: list[nn.Parameter], loss: Tensor, *, rate: float) -> None:
    """One step downhill."""
    # By hand: torch's optimisers take seconds to import, longer than all of this lesson.
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter.sub_(rate * gradient)


def _encoder(*, seed: int) -> EncoderModel:
    family = Encoder(
        layers=1,
        heads=2,
        width=WIDTH,
        mlp_width=2 * WIDTH,
        context=len(TEXT) + 1,
        positions=Learned(),
        init_std=WIDTH**-0.5,
    )
    return family.build(vocabulary=len(WORDS), seed=seed).double()


def _apart(x: Tensor) -> float:
    """The largest difference between two of the rows (m,w)."""
    return float((x[:, None] - x[None]).abs().max())
