"""Group attention: the cost that groups save, and the pairs they block.

Shapes: n positions, G groups, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.function import AttentionFunction, AttentionOutput, HeadShape
from regard.attention.kinds.group import Group
from regard.attention.masks.mask import Mask, bidirectional, padding, same_group
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError
from regard.lessons import (
    Answer,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    equal,
    exercise,
    heatmap,
    lesson,
    line_chart,
    mark_mask,
    near,
    standard_normal,
)
from regard.lessons.topics.cost.operation_counts import count_operations, fit_exponent, min_seconds

WIDTH = 16
BLOCKS, IDS = "contiguous blocks", "modality ids"


@lesson("group-cost", topic="kinds and cost", title="Group attention costs n²/G")
def group_cost(*, block: Annotated[int, Range(8, 64)] = 32, seed: Seed = 0) -> Lesson:
    """What does attention cost when each position attends only within its own group?

    Each of G groups has n/G positions and (n/G)² pairs: n²/G in total instead of n². FLOPs fall by
    the same factor if each block is computed separately, as regard does for contiguous blocks of
    equal size.

    A mask alone saves nothing. Groups given by ids, such as words and patches, block the same
    pairs, but all scores are still computed and then discarded. Whether a sparse pattern really
    costs less has to be counted.
    """
    counts = [1, 2, 4, 8, 16]
    n = block * counts[-1]
    runs = {by: {g: _run(by, n, g, seed=seed) for g in counts} for by in (BLOCKS, IDS)}
    flops = {by: [count_operations(runs[by][g]).token_mixing for g in counts] for by in runs}
    pairs = {by: [_allowed_pairs(by, n, g) for g in counts] for by in runs}
    full = 4 * n**2 * WIDTH
    rows = [
        {"groups G": g, "seconds": min_seconds(runs[by][g]), "groups by": by}
        for by in runs
        for g in counts
    ]
    return Lesson(
        table=LessonTable(
            ("groups", "allowed pairs", *(f"FLOPs, {by}" for by in runs)),
            [(g, pairs[BLOCKS][i], *(flops[by][i] for by in runs)) for i, g in enumerate(counts)],
        ),
        chart=line_chart(rows, x="groups G", y="seconds", series="groups by", log="xy"),
        caption=f"Time on this machine for {n} positions against the number of groups.",
        checks=[
            equal(
                "allowed pairs, contiguous blocks: n²/G",
                pairs[BLOCKS],
                [n * n // g for g in counts],
            ),
            equal("allowed pairs, modality ids", pairs[IDS], pairs[BLOCKS]),
            equal("FLOPs, contiguous blocks: 4n²d/G", flops[BLOCKS], [full // g for g in counts]),
            near(
                "exponent of G, contiguous blocks",
                fit_exponent(counts, flops[BLOCKS]),
                -1,
                within=1e-9,
            ),
            equal("FLOPs, modality ids: 4n²d", flops[IDS], [full] * len(counts)),
            near(
                "output of 4 groups: blocks vs ids",
                runs[BLOCKS][4]().out,
                runs[IDS][4]().out,
                within=1e-9,
            ),
        ],
        see_also=["attention/kinds/group.py", "attention/attend.py", "recipes/digits-groups.toml"],
    )


def _run(by: str, n: int, groups: int, *, seed: int) -> Callable[[], AttentionOutput]:
    """One head under the mask of its groups."""
    q, k, v = standard_normal(3, 1, 1, n, WIDTH, seed=seed)
    return partial(attend, q, k, v, *_mask_and_function(by, n, groups))


def _mask_and_function(by: str, n: int, groups: int) -> tuple[Mask, AttentionFunction]:
    kind = Group(by="count", groups=groups) if by == BLOCKS else Group(by="modality")
    function = kind.build(HeadShape(WIDTH, heads=1, context=n))
    ids = torch.arange(n)[None] // (n // groups)
    positions = TokenPositions.of_row(n, modalities=ids)
    return function.restrict_mask(bidirectional(), positions), function


def _allowed_pairs(by: str, n: int, groups: int) -> int:
    return int(_mask_and_function(by, n, groups)[0].dense(n, n).sum())


@lesson("modality-groups", topic="kinds and cost", title="Words and patches in groups")
def modality_groups(
    *,
    words: Annotated[int, Range(1, 8)] = 4,
    patches: Annotated[int, Range(1, 12)] = 6,
    layers: Annotated[int, Range(1, 6)] = 4,
    fusion: Annotated[int, Range(1, 6)] = 2,
    seed: Seed = 0,
) -> Lesson:
    """Which pairs are blocked when words and patches attend in groups, and when do they mix?

    Words attend to words and patches to patches; all 2·w·p pairs of a word and a patch are blocked,
    and no number of such layers passes information from a patch to a word. Fusion layers, here
    every `fusion`-th layer, attend to everything: from the first of them on, words depend on
    patches. A question about an image therefore needs at least one fusion layer; before it the
    modalities are encoded independently.
    """
    if fusion > layers:
        raise UserError(
            f"fusion = {fusion} is beyond the last of {layers} layers: the groups never mix",
            topic="lesson",
            where="modality-groups",
            hint=f"Set fusion to at most {layers}, or use more layers.",
        )
    n = words + patches
    modalities = torch.tensor([[0] * words + [1] * patches])
    positions = TokenPositions.of_row(n, modalities=modalities)
    kind = Group(by="modality", fusion_every=fusion)
    influence = _patch_influence(kind, positions, layers, words, seed=seed)
    unfused = _patch_influence(Group(by="modality"), positions, layers, words, seed=seed)
    pairs = [int(_layer_mask(kind, layer, positions).sum()) for layer in range(layers)]
    is_fusion = [(layer + 1) % fusion == 0 for layer in range(layers)]
    mixed = [any(is_fusion[: layer + 1]) for layer in range(layers)]
    within_groups = words**2 + patches**2
    grouped = _layer_mask(Group(by="modality"), 0, positions)
    labels = [f"w{i + 1}" for i in range(words)] + [f"p{i + 1}" for i in range(patches)]
    return Lesson(
        table=LessonTable(
            ("layer", "attends to", "allowed pairs", "blocked pairs", "words depend on patches"),
            [
                (
                    layer + 1,
                    "everything" if fused else "its own group",
                    allowed,
                    n * n - allowed,
                    gradient > 0,
                )
                for layer, (fused, allowed, gradient) in enumerate(
                    zip(is_fusion, pairs, influence, strict=True)
                )
            ],
        ),
        chart=heatmap(
            grouped.double().tolist(), row_labels=labels, column_labels=labels, title="may attend"
        ),
        caption="Mask of a group layer: w are words, p patches; 1 = may attend, 0 = blocked. A "
        "fusion layer has 1 everywhere.",
        checks=[
            equal(
                "blocked pairs of a group layer: 2·w·p", int((~grouped).sum()), 2 * words * patches
            ),
            equal(
                "allowed pairs by layer",
                pairs,
                [n * n if fused else within_groups for fused in is_fusion],
            ),
            equal("words depend on patches, by layer", [one > 0 for one in influence], mixed),
            near(
                "gradient from words to patches without fusion", unfused, [0.0] * layers, within=0
            ),
        ],
        see_also=[
            "attention/kinds/group.py",
            "tasks/vision/digits.py",
            "recipes/digits-groups.toml",
        ],
    )


def _layer_mask(kind: Group, layer: int, positions: TokenPositions) -> Tensor:
    """(n,n): the mask of this layer."""
    n = positions.ids.shape[1]
    function = kind.build(HeadShape(WIDTH, heads=1, context=n, layer=layer))
    return function.restrict_mask(bidirectional(), positions).dense(n, n)[0, 0]


def _patch_influence(
    kind: Group, positions: TokenPositions, layers: int, words: int, *, seed: int
) -> list[float]:
    """After each layer, the largest gradient of a word's output with respect to a patch's input."""
    n = positions.ids.shape[1]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, n, WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    hidden, gradients = x, []
    for layer in range(layers):
        shape = HeadShape(WIDTH // 2, heads=2, context=n, layer=layer)
        mixer = build_mixer(kind, shape).double()
        with torch.no_grad():
            for parameter in mixer.parameters():
                parameter.normal_(std=WIDTH**-0.5, generator=generator)
        hidden = hidden + mixer(hidden, mask=bidirectional(), positions=positions).out
        (gradient,) = torch.autograd.grad(hidden[:, :words].sum(), x, retain_graph=True)
        gradients.append(float(gradient[:, words:].abs().max()))
    return gradients


@exercise("modality-groups")
def modality_groups_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    n = 7
    modalities = torch.randint(2, (n,), generator=generator)
    modalities[0], modalities[1] = 0, 1  # at least one of each
    valid = torch.ones(n, dtype=torch.bool)
    valid[n - 1] = False
    target = (same_group(modalities[None]) & padding(valid[None])).dense(n, n)[0, 0]

    def mark(answer: Answer) -> Mark:
        labels = ["word" if not int(modality) else "patch" for modality in modalities]
        return mark_mask(answer["mask"], target, labels)

    return ExerciseSheet(
        task="A layer with groups by modality, 0 = word, 1 = patch; the last position is padding, "
        "to which no position may attend (its own row is not masked further). Give the mask: "
        "mask[i][j] is true where position i may attend to position j.",
        given={"modalities": modalities, "valid": [bool(one) for one in valid]},
        slots=(Slot("mask", (n, n), element_type="flags"),),
        mark=mark,
    )
