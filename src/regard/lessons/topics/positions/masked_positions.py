"""Masked tokens with masked positions: their hidden states become identical.

Devlin et al., 2019, keep the position of a masked token. Shapes: n positions, m masked ones.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch import Tensor, nn

from regard.attention.masks.mask import bidirectional
from regard.attention.positions.learned import Learned
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
from regard.models.architectures.encoder_model import EncoderModel
from regard.models.families.encoder import Encoder
from regard.models.inputs import ModelInputs

TEXT = ["Jill", "Birt", "likes", "outdoor", "activities", ".", "He", "was", "often", "hiking"]
VOCABULARY = ["[MASK]", *dict.fromkeys(TEXT)]
WIDTH = 24
STEPS = 80
LR = 0.15
KEPT, MASKED = "position kept", "position masked"


@lesson("masked-positions", topic="positions", title="Masking the position too")
def masked_positions(
    *,
    masked: Annotated[int, Range(2, 4)] = 3,
    seed: Seed = 0,
) -> Lesson:
    """What happens when the position of a masked token is masked as well?

    All masked tokens then have the same embedding and the same position, hence the same hidden
    states: one predicted distribution for all of them, whatever the weights. If the m masked tokens
    differ, their probabilities sum to at most 1, so the mean loss cannot fall below log m; with
    positions kept the same model memorises the text in a few steps. That is why masked language
    models mask the token and keep its position.
    """
    results = {variant: _train(variant, masked=masked, seed=seed) for variant in (KEPT, MASKED)}
    bound = math.log(masked)
    rows = [
        {"step": step, "loss at masked tokens, nats": loss, "": variant}
        for variant, (losses, _, _) in results.items()
        for step, loss in enumerate(losses)
    ]
    return Lesson(
        table=LessonTable(
            ("", "difference at initialisation", "after training", "loss after training"),
            [
                (variant, before, after, losses[-1])
                for variant, (losses, before, after) in results.items()
            ],
        ),
        chart=line_chart(
            rows, x="step", y="loss at masked tokens, nats", series="", reference=bound
        ),
        caption=f"Memorising one text with {masked} tokens masked; the dashed line is "
        f"log {masked}, the minimum loss of one distribution for all of them.",
        checks=[
            near(
                "difference of masked tokens' hidden states, position masked, at initialisation",
                results[MASKED][1],
                0,
                within=1e-12,
            ),
            near("the same after training", results[MASKED][2], 0, within=1e-12),
            above("the same, position kept, at initialisation", results[KEPT][1], 1e-6),
            above("lowest loss, position masked", min(results[MASKED][0]), bound - 1e-9),
            near("loss after training, position masked", results[MASKED][0][-1], bound, within=0.1),
            below("loss after training, position kept", results[KEPT][0][-1], 0.5 * bound),
        ],
        see_also=["objectives/masking.py", "objectives/masked.py", "recipes/mini-bert.toml"],
    )


def _train(variant: str, *, masked: int, seed: int) -> tuple[list[float], float, float]:
    """Losses by step, and the largest difference of masked tokens before and after training."""
    model = _encoder(seed=seed)
    selected = torch.randperm(len(TEXT), generator=torch.Generator().manual_seed(seed))[:masked]
    targets = torch.tensor([VOCABULARY.index(word) for word in TEXT])
    ids, positions = targets.clone(), torch.arange(len(TEXT))
    ids[selected] = VOCABULARY.index("[MASK]")
    if variant == MASKED:
        positions[selected] = len(TEXT)  # a position of no other token
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    losses, differences = [], []
    for step in range(STEPS + 1):
        row = ModelInputs(
            ids[None], positions=TokenPositions(positions[None]), mask=bidirectional()
        )
        x = model.hidden_states(row)[0, selected]
        loss = model.head.losses(x, targets=targets[selected]).mean()
        losses.append(float(loss.detach()))
        differences.append(max_difference(x.detach()[:, None], x.detach()[None]))
        # The learning rate decays: otherwise some seeds oscillate around the minimum.
        _sgd_step(parameters, loss, lr=LR * min(1.0, 2 - 2 * step / STEPS))
    return losses, differences[0], differences[-1]


def _sgd_step(parameters: list[nn.Parameter], loss: Tensor, *, lr: float) -> None:
    # Without torch.optim: its import takes seconds, longer than this lesson.
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter.sub_(lr * gradient)


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
    return family.build(vocabulary=len(VOCABULARY), seed=seed).double()
