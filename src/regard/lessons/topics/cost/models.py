"""How attention's cost grows with the lengths of source and target in an encoder-decoder.

    encoder O(M²k)        cross O(MNk)        decoder O(N²k)        M source, N target, k width

Masks: True = may attend.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, NamedTuple

import torch

from regard.attention.function import HeadShape
from regard.attention.kinds.dot import Dot
from regard.attention.masks.mask import Mask, bidirectional, causal, cross
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Lesson, LessonTable, equal, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range
from regard.lessons.registry import lesson
from regard.lessons.topics.cost.counted import OperationCounts, exponent, operations, seconds
from regard.models.families.encoder_decoder import EncoderDecoder


class ModelSizes(NamedTuple):
    """M, N and k."""

    source: int
    target: int
    width: int


PARTS = ("encoder", "cross", "decoder")
POWERS = {"encoder": (2, 0, 1), "cross": (1, 1, 1), "decoder": (0, 2, 1)}
"With which each part grows with M, N and k."


@lesson("encoder-decoder-cost", topic="kinds and cost", title="What each attention costs")
def encoder_decoder_cost(
    *,
    source: Annotated[int, Range(8, 64)] = 48,
    target: Annotated[int, Range(8, 64)] = 32,
    half_width: Annotated[int, Range(4, 32)] = 16,
) -> Lesson:
    """How does the cost of attention grow in an encoder, in a decoder and between them?

    Scores and mixed values are made for each pair of a query and a key, k numbers each: M² pairs
    within the source, N·M from target to source, N² within the target, so O(M²k), O(MNk), O(N²k).
    Exponents fitted to counted operations show it; with two products the factor is 4.

    It is often said that a Transformer's cost is quadratic. Its attention's is; the linear layers
    see each place alone and cost about 24·M·k² for a block of an encoder, more than 4·M²k until
    the row is six times as long as the model is wide.
    """
    width = 2 * half_width
    base = ModelSizes(source, target, width)
    steps = {"M": 0, "N": 1, "k": 2}
    fitted = {part: [_power(part, base, axis) for axis in steps.values()] for part in PARTS}
    spent = {part: _spent(part, base).meeting for part in PARTS}
    formulas = {
        "encoder": 4 * source**2 * width,
        "cross": 4 * source * target * width,
        "decoder": 4 * target**2 * width,
    }
    even = _block(ModelSizes(6 * 8, 1, 8))
    lengths = [128, 256, 512, 1024, 2048]
    rows = [
        {
            "places of the source M": m,
            "seconds": _time(part, ModelSizes(m, 256, width)),
            "attention": part,
        }
        for part in PARTS
        for m in lengths
    ]
    return Lesson(
        table=LessonTable(
            ("attention", "operations", "formula", "power of M", "power of N", "power of k"),
            [
                (part, spent[part], formulas[part], *(round(one, 3) for one in fitted[part]))
                for part in PARTS
            ],
        ),
        chart=curves(rows, x="places of the source M", y="seconds", series="attention", log="xy"),
        caption="Time of one attention on this machine, its matrices included, against the length "
        "of the source; the target has 256 places.",
        checks=[
            *(equal(f"operations, {part}", spent[part], formulas[part]) for part in PARTS),
            *(
                near(f"powers of M, N, k: {part}", fitted[part], POWERS[part], within=1e-9)
                for part in PARTS
            ),
            equal(
                "operations of a whole model, two layers",
                _whole(base).meeting,
                2 * sum(formulas.values()),
            ),
            equal("an encoder's block at M = 6k: linear layers", even.alone, even.meeting),
        ],
        see=[
            "models/architectures/encoder_decoder_model.py",
            "attention/multi_head.py",
            "recipes/translation.toml",
        ],
    )


def _power(part: str, base: ModelSizes, axis: int) -> float:
    """The exponent of one of the sizes, from doubling it twice."""
    grown = [base._replace(**{base._fields[axis]: base[axis] * factor}) for factor in (1, 2, 4)]
    costs = [_spent(part, sizes).meeting for sizes in grown]
    return exponent([sizes[axis] for sizes in grown], costs)


def _spent(part: str, sizes: ModelSizes) -> OperationCounts:
    return operations(_run(part, sizes))


def _time(part: str, sizes: ModelSizes) -> float:
    return seconds(_run(part, sizes))


def _run(part: str, sizes: ModelSizes) -> partial[object]:
    """One attention of a model, ready to run."""
    mixer = build_mixer(Dot(), HeadShape(sizes.width // 2, heads=2, context=4096))
    positions = sizes.source if part == "encoder" else sizes.target
    x, memory = (torch.zeros(1, n, sizes.width) for n in (positions, sizes.source))
    masks: dict[str, Mask] = {
        "encoder": bidirectional(),
        "cross": cross(torch.ones(1, sizes.source, dtype=torch.bool)),
        "decoder": causal(),
    }
    return partial(
        mixer,
        x,
        mask=masks[part],
        positions=TokenPositions.of_row(positions),
        memory=memory if part == "cross" else None,
    )


def _whole(sizes: ModelSizes) -> OperationCounts:
    """A whole encoder-decoder of two layers."""
    model = _family(sizes).build(vocabulary=3, seed=0)
    source, target = (torch.zeros(1, n, dtype=torch.long) for n in sizes[:2])
    valid = torch.ones_like(source, dtype=torch.bool)
    return operations(partial(model.target, target, source=source, source_valid=valid))


def _block(sizes: ModelSizes) -> OperationCounts:
    """A block of the encoder: attention, its matrices and the feed-forward network."""
    block = _family(sizes).build_stack().blocks[0]
    x = torch.zeros(1, sizes.source, sizes.width)
    positions = TokenPositions.of_row(sizes.source)
    return operations(partial(block, x, mask=bidirectional(), positions=positions))


def _family(sizes: ModelSizes) -> EncoderDecoder:
    return EncoderDecoder(
        layers=2, heads=2, width=sizes.width, context=max(sizes.source, sizes.target)
    )


@exercise("encoder-decoder-cost")
def encoder_decoder_cost_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    source, target = (10 * torch.randint(2, 10, (2,), generator=generator)).tolist()
    width = int(2 * torch.randint(4, 33, (1,), generator=generator))
    sizes = ModelSizes(source, target, width)

    def mark(answer: Answer) -> Mark:
        counted = [_spent(part, sizes).meeting for part in PARTS]
        wanted = torch.tensor(counted, dtype=torch.float64)
        wrong = int((answer["operations"] != wanted).sum())
        says = f"{wrong} of {len(PARTS)} counts are wrong: {', '.join(PARTS)}."
        return Mark(float(wrong), 0.0, says)

    return ExerciseSheet(
        task="One layer of an encoder-decoder reads a source of M places and writes a target of N, "
        "with vectors of width k. How many multiplications and additions (two for each product of "
        "numbers) do scores and mixed values take: in the encoder, from target to source, in the "
        "decoder? All pairs are computed; the matrices for queries, keys and values do not count.",
        given={"M": source, "N": target, "k": width},
        slots=(Slot("operations", (3,)),),
        mark=mark,
    )
