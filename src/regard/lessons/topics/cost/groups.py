"""Group attention: what cutting a row into groups saves, and which pairs it cuts.

Shapes: n places, G groups, d head width. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import AttentionOutput, attend
from regard.attention.function import HeadShape
from regard.attention.kinds.group import Group, InsideGroups
from regard.attention.masks.mask import bidirectional, padding, same_group
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.core.errors import UserError
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, Weights, exercise
from regard.lessons.lesson import Draw, Lesson, LessonTable, equal, near
from regard.lessons.lesson_charts import curves, heat
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.lessons.topics.cost.counted import exponent, operations, seconds

WIDTH = 16
BLOCKS, IDS = "blocks of places", "as many groups by modality ids"


@lesson("group-cost", topic="kinds and cost", title="Groups cost n²/G")
def group_cost(*, block: Annotated[int, Range(8, 64)] = 32, seed: Seed = 0) -> Lesson:
    """What does attention cost when each place looks only inside its own group?

    Each of G groups has n/G places and so (n/G)² pairs: n²/G together instead of n². The operations
    fall by just that factor, if the code takes each block by itself, as regard does with blocks of
    equal size.

    A mask alone saves nothing. Groups that are told by ids, such as words and patches, forbid the
    same pairs; but their scores are still computed whole, and then thrown away. When somebody says
    that a sparse pattern costs less, it is worth counting.
    """
    counts = [1, 2, 4, 8, 16]
    n = block * counts[-1]
    runs = {way: {g: _run(way, n, g, seed=seed) for g in counts} for way in (BLOCKS, IDS)}
    spent = {way: [operations(runs[way][g]).meeting for g in counts] for way in runs}
    pairs = {way: [_pairs(way, n, g) for g in counts] for way in runs}
    full = 4 * n**2 * WIDTH
    rows = [
        {"groups G": g, "seconds": seconds(runs[way][g]), "groups": way}
        for way in runs
        for g in counts
    ]
    same = [runs[BLOCKS][4]().out, runs[IDS][4]().out]
    return Lesson(
        table=LessonTable(
            ("groups", "pairs allowed", *(f"operations, {way}" for way in runs)),
            [(g, pairs[BLOCKS][i], *(spent[way][i] for way in runs)) for i, g in enumerate(counts)],
        ),
        chart=curves(rows, x="groups G", y="seconds", series="groups", log="xy"),
        caption=f"Time on this machine for a row of {n} places against the number of groups.",
        checks=[
            equal("pairs allowed: n²/G", pairs[BLOCKS], [n * n // g for g in counts]),
            equal("pairs allowed, by ids", pairs[IDS], pairs[BLOCKS]),
            equal("operations, blocks: 4n²d/G", spent[BLOCKS], [full // g for g in counts]),
            near("growth with G, blocks", exponent(counts, spent[BLOCKS]), -1, within=1e-9),
            equal("operations, by ids: 4n²d", spent[IDS], [full] * len(counts)),
            near("output of 4 groups, both ways", same[0], same[1], within=1e-9),
        ],
        see=["attention/kinds/group.py", "attention/attend.py", "recipes/digits-groups.toml"],
    )


def _run(way: str, n: int, groups: int, *, seed: int) -> Callable[[], AttentionOutput]:
    """One head under a mask that the kind itself narrows to its groups, ready to run."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 1, 1, n, WIDTH, generator=generator, dtype=torch.float64)
    rule, positions = _rule(way, n, groups)
    return partial(attend, q, k, v, rule.narrow(bidirectional(), positions), rule)


def _rule(way: str, n: int, groups: int) -> tuple[InsideGroups, TokenPositions]:
    kind = Group(by="count", groups=groups) if way == BLOCKS else Group(by="modality")
    numbers = torch.arange(n)[None] // (n // groups)
    rule = kind.build(HeadShape(WIDTH, heads=1, context=n))
    assert isinstance(rule, InsideGroups)
    return rule, TokenPositions.of_row(n, modalities=numbers)


def _pairs(way: str, n: int, groups: int) -> int:
    rule, positions = _rule(way, n, groups)
    return int(rule.narrow(bidirectional(), positions).dense(n, n).sum())


@lesson("modality-groups", topic="kinds and cost", title="Words and patches in groups")
def modality_groups(
    *,
    words: Annotated[int, Range(1, 8)] = 4,
    patches: Annotated[int, Range(1, 12)] = 6,
    layers: Annotated[int, Range(1, 6)] = 4,
    fusion: Annotated[int, Range(1, 6)] = 2,
    seed: Seed = 0,
) -> Lesson:
    """Which pairs are cut when words and patches attend in groups, and when do they meet?

    Words see words and patches see patches; every pair of a word and a patch is cut, 2·w·p of them,
    and nothing a patch holds can reach a word, through however many such layers. Layers that see
    everything, here every so many, are the only way across: from the first of them on, words depend
    on patches. So a question about a picture needs at least one fusion layer, and what is fused
    late has been read apart until then.
    """
    if fusion > layers:
        raise UserError(
            f"fusion = {fusion} is beyond the last of {layers} layers: the groups never meet",
            topic="lesson",
            where="modality-groups",
            hint=f"Give a fusion of at most {layers}, or more layers.",
        )
    n = words + patches
    modalities = torch.tensor([[0] * words + [1] * patches])
    positions = TokenPositions.of_row(n, modalities=modalities)
    kind = Group(by="modality", fusion_every=fusion)
    reach = _reach(kind, positions, layers, words, seed=seed)
    never = _reach(Group(by="modality"), positions, layers, words, seed=seed)
    pairs = [int(_mask_of(kind, layer, positions).sum()) for layer in range(layers)]
    fuses = [(layer + 1) % fusion == 0 for layer in range(layers)]
    met = [any(fuses[: layer + 1]) for layer in range(layers)]
    inside = words**2 + patches**2
    grouped = _mask_of(Group(by="modality"), 0, positions)
    return Lesson(
        table=LessonTable(
            ("layer", "sees", "pairs allowed", "pairs cut", "patches reach words"),
            [
                (layer + 1, "everything" if fused else "its own group", some, n * n - some, far > 0)
                for layer, (fused, some, far) in enumerate(zip(fuses, pairs, reach, strict=True))
            ],
        ),
        chart=_drawn(grouped, words, patches),
        caption="A layer in groups: w are words, p patches; 1 where a place may attend, 0 where "
        "the pair is cut. A fusion layer has 1 everywhere.",
        checks=[
            equal(
                "pairs cut in a layer of groups: 2·w·p", int((~grouped).sum()), 2 * words * patches
            ),
            equal(
                "pairs allowed, layer by layer",
                pairs,
                [n * n if fused else inside for fused in fuses],
            ),
            equal("layers after which patches reach words", [one > 0 for one in reach], met),
            near("influence of patches on words without fusion", never, [0.0] * layers, within=0),
        ],
        see=["attention/kinds/group.py", "tasks/vision/digits.py", "recipes/digits-groups.toml"],
    )


def _drawn(mask: Tensor, words: int, patches: int) -> Draw:
    names = [f"w{i + 1}" for i in range(words)] + [f"p{i + 1}" for i in range(patches)]
    cells = mask.double().tolist()
    return heat(cells, down=names, across=names, title="may attend", axes=("from", "to"))


def _mask_of(kind: Group, layer: int, positions: TokenPositions) -> Tensor:
    """(n,n): what a layer of this kind lets through."""
    n = positions.ids.shape[1]
    rule = kind.build(HeadShape(WIDTH, heads=1, context=n, layer=layer))
    return rule.narrow(bidirectional(), positions).dense(n, n)[0, 0]


def _reach(
    kind: Group, positions: TokenPositions, layers: int, words: int, *, seed: int
) -> list[float]:
    """After each layer, the largest gradient of a word's output to a patch's input."""
    n = positions.ids.shape[1]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, n, WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    row, found = x, []
    for layer in range(layers):
        shape = HeadShape(WIDTH // 2, heads=2, context=n, layer=layer)
        mixer = build_mixer(kind, shape).double()
        with torch.no_grad():
            for parameter in mixer.parameters():
                parameter.normal_(std=WIDTH**-0.5, generator=generator)
        row = row + mixer(row, mask=bidirectional(), positions=positions).out
        (gradient,) = torch.autograd.grad(row[:, :words].sum(), x, retain_graph=True)
        found.append(float(gradient[:, words:].abs().max()))
    return found


@exercise("modality-groups")
def modality_groups_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    n = 7
    kinds = torch.randint(2, (n,), generator=generator)
    kinds[0], kinds[1] = 0, 1  # both are there
    valid = torch.ones(n, dtype=torch.bool)
    valid[n - 1] = False
    wanted = (same_group(kinds[None]) & padding(valid[None])).dense(n, n)[0, 0]

    def mark(answer: Answer) -> Mark:
        wrong = answer["mask"] != wanted
        says = f"{int(wrong.sum())} of {n * n} pairs are wrong; drawn is the mask you gave."
        labels = ["word" if not int(one) else "patch" for one in kinds]
        drawn = Weights(labels, labels, answer["mask"].double())
        return Mark(float(wrong.sum()) / (n * n), 0.0, says, drawn)

    return ExerciseSheet(
        task="A layer in groups by modality, 0 = word, 1 = patch; the last place is padding, which "
        "nobody may attend to (its own row is not masked further). Give the mask: mask[i][j] is "
        "true where place i may attend to place j.",
        given={"modalities": kinds, "valid": [bool(one) for one in valid]},
        slots=(Slot("mask", (n, n), of="flags"),),
        mark=mark,
    )
