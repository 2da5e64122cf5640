"""How attention cost grows with source and target length in an encoder-decoder.

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
from regard.lessons import (
    Answer,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Slot,
    equal,
    exercise,
    lesson,
    line_chart,
    near,
)
from regard.lessons.topics.cost.operation_counts import (
    OperationCounts,
    count_operations,
    fit_exponent,
    min_seconds,
)
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.inputs import ModelInputs


class ModelSizes(NamedTuple):
    """M, N and k."""

    source: int
    target: int
    width: int


ATTENTIONS = ("encoder", "cross", "decoder")
EXPONENTS = {"encoder": (2, 0, 1), "cross": (1, 1, 1), "decoder": (0, 2, 1)}
"Of M, N and k in the cost of each attention."


@lesson(
    "encoder-decoder-cost", topic="kinds and cost", title="Attention cost in an encoder-decoder"
)
def encoder_decoder_cost(
    *,
    source: Annotated[int, Range(8, 64)] = 48,
    target: Annotated[int, Range(8, 64)] = 32,
    half_width: Annotated[int, Range(4, 32)] = 16,
) -> Lesson:
    """How does attention cost grow in the encoder, in the decoder and in cross-attention?

    Scores and mixed values take k multiply-adds each per query–key pair: M² pairs in the encoder,
    N·M in cross-attention, N² in the decoder, so O(M²k), O(MNk), O(N²k). Exponents fitted to
    counted FLOPs confirm it; two products with two FLOPs per multiply-add make the factor 4.

    Transformers are often said to have quadratic cost. Their attention has; the linear layers act
    on each position separately and cost about 24·M·k² per encoder block, more than the 4·M²k of
    attention until the sequence is six times as long as the model is wide.
    """
    width = 2 * half_width
    base = ModelSizes(source, target, width)
    fitted = {
        attention: [_exponent(attention, base, axis) for axis in range(len(base))]
        for attention in ATTENTIONS
    }
    flops = {attention: _flops(attention, base) for attention in ATTENTIONS}
    formulas = {
        "encoder": 4 * source**2 * width,
        "cross": 4 * source * target * width,
        "decoder": 4 * target**2 * width,
    }
    break_even = _block_operations(ModelSizes(6 * 8, 1, 8))
    lengths = [128, 256, 512, 1024, 2048]
    rows = [
        {
            "source length M": m,
            "seconds": min_seconds(_run(attention, ModelSizes(m, 256, width))),
            "attention": attention,
        }
        for attention in ATTENTIONS
        for m in lengths
    ]
    return Lesson(
        table=LessonTable(
            ("attention", "FLOPs", "formula", "exponent of M", "of N", "of k"),
            [
                (
                    attention,
                    flops[attention],
                    formulas[attention],
                    *(round(one, 3) for one in fitted[attention]),
                )
                for attention in ATTENTIONS
            ],
        ),
        chart=line_chart(rows, x="source length M", y="seconds", series="attention", log="xy"),
        caption="Time of one attention layer on this machine, projections included, against source "
        "length; the target has 256 tokens.",
        checks=[
            *(
                equal(f"FLOPs, {attention}", flops[attention], formulas[attention])
                for attention in ATTENTIONS
            ),
            *(
                near(
                    f"exponents of M, N, k: {attention}",
                    fitted[attention],
                    EXPONENTS[attention],
                    within=1e-9,
                )
                for attention in ATTENTIONS
            ),
            equal(
                "attention FLOPs of a model with two layers",
                _model_operations(base).token_mixing,
                2 * sum(formulas.values()),
            ),
            equal(
                "encoder block at M = 6k: FLOPs of linear layers",
                break_even.channel_mixing,
                break_even.token_mixing,
            ),
        ],
        see_also=[
            "models/architectures/encoder_decoder_model.py",
            "attention/multi_head.py",
            "recipes/translation.toml",
        ],
    )


def _exponent(attention: str, base: ModelSizes, axis: int) -> float:
    """The exponent of one size, from doubling it twice."""
    scaled = [base._replace(**{base._fields[axis]: base[axis] * factor}) for factor in (1, 2, 4)]
    costs = [_flops(attention, sizes) for sizes in scaled]
    return fit_exponent([sizes[axis] for sizes in scaled], costs)


def _flops(attention: str, sizes: ModelSizes) -> int:
    return count_operations(_run(attention, sizes)).token_mixing


def _run(attention: str, sizes: ModelSizes) -> partial[object]:
    """Forward pass of one attention layer."""
    mixer = build_mixer(Dot(), HeadShape(sizes.width // 2, heads=2, context=4096))
    length = sizes.source if attention == "encoder" else sizes.target
    x, memory = (torch.zeros(1, n, sizes.width) for n in (length, sizes.source))
    masks: dict[str, Mask] = {
        "encoder": bidirectional(),
        "cross": cross(torch.ones(1, sizes.source, dtype=torch.bool)),
        "decoder": causal(),
    }
    return partial(
        mixer,
        x,
        mask=masks[attention],
        positions=TokenPositions.of_row(length),
        memory=memory if attention == "cross" else None,
    )


def _model_operations(sizes: ModelSizes) -> OperationCounts:
    """An encoder-decoder of two layers."""
    model = _family(sizes).build(vocabulary=3, seed=0)
    source, target = (torch.zeros(1, n, dtype=torch.long) for n in sizes[:2])
    valid = torch.ones_like(source, dtype=torch.bool)
    inputs = ModelInputs(target, source=source, source_valid=valid)
    return count_operations(partial(model.hidden_states, inputs))


def _block_operations(sizes: ModelSizes) -> OperationCounts:
    """One encoder block: projections, attention and MLP."""
    block = _family(sizes).build_stack().blocks[0]
    x = torch.zeros(1, sizes.source, sizes.width)
    positions = TokenPositions.of_row(sizes.source)
    return count_operations(partial(block, x, mask=bidirectional(), positions=positions))


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
        counts = [_flops(attention, sizes) for attention in ATTENTIONS]
        wrong = int((answer["flops"] != torch.tensor(counts, dtype=torch.float64)).sum())
        feedback = f"{wrong} of {len(ATTENTIONS)} counts are wrong: {', '.join(ATTENTIONS)}."
        return Mark(float(wrong), 0.0, feedback)

    return ExerciseSheet(
        task="One layer of an encoder-decoder has a source of M tokens, a target of N tokens and "
        "width k. How many FLOPs (two per multiply-add) do scores and mixed values take in the "
        "encoder's self-attention, in cross-attention and in the decoder's self-attention? All "
        "pairs are computed; projections to queries, keys and values do not count.",
        given={"M": source, "N": target, "k": width},
        slots=(Slot("flops", (3,)),),
        mark=mark,
    )
