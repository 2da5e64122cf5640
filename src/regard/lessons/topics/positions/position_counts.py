"""Parameter counts of position encodings: formulas against the tensors of built models.

    learned: T·w        relative: L·h·(2(T − 1) + 1)        clipped at ±k: L·h·(2k + 1)

T context, w model width, L layers, h heads.
"""

from __future__ import annotations

from typing import Annotated

import torch

from regard.attention.function import HeadShape
from regard.attention.positions import POSITIONS, PositionKind
from regard.attention.positions.learned import Learned
from regard.attention.positions.none import NoPositions
from regard.attention.positions.relative import Relative
from regard.core.ledger import ParameterCount, total_parameters
from regard.core.settings import catalog_name
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
)
from regard.models.families.decoder import Decoder


@lesson("position-counts", topic="positions", title="Parameters of position encodings")
def position_counts(
    *,
    context: Annotated[int, Range(4, 1024)] = 100,
    layers: Annotated[int, Range(1, 6)] = 3,
    heads: Annotated[int, Range(1, 8)] = 3,
    half_head: Annotated[int, Range(1, 8)] = 4,
    clip: Annotated[int, Range(1, 3)] = 3,
) -> Lesson:
    """How many parameters does each position encoding have?

    Learned positions are one embedding table of T·w parameters. A relative bias has one parameter
    per head and distance from −(T−1) to T−1, that is 2(T−1) + 1 = 2T − 1, in every layer:
    L·h·(2T − 1); clipped at ±k it is L·h·(2k + 1), independent of the context length. Sinusoids,
    rotary embeddings and ALiBi slopes are fixed formulas and have none. For each, the formula is
    compared with the tensors of a built model.
    """
    width = 2 * heads * half_head  # rotary embeddings rotate pairs: an even head width
    kinds: dict[str, PositionKind] = {
        "learned": Learned(),
        "learned, half the width": Learned(combine="concatenate", position_width=width // 2),
        "relative": Relative(),
        f"relative, clipped at {clip}": Relative(clip=clip),
        **_without_parameters(),
    }
    size = {"layers": layers, "heads": heads, "width": width}
    counts = {name: _count(_family(kind, context, **size)) for name, kind in kinds.items()}
    expected = {
        "learned": context * width,
        "learned, half the width": context * width // 2,
        "relative": layers * heads * (2 * (context - 1) + 1),
        f"relative, clipped at {clip}": layers * heads * (2 * clip + 1),
    }
    lengths = [length for length in (8, 16, 32, 64, 128, 256, 512, 1024) if length > clip]
    rows = [
        {
            "context": length,
            "parameters": total_parameters(_terms(_family(kind, length, **size))),
            "positions": name,
        }
        for name, kind in kinds.items()
        if name in expected
        for length in lengths
    ]
    return Lesson(
        table=LessonTable(
            ("positions", "formula", "by formula", "in tensors"),
            [
                (name, formula or "no parameters", by_formula, in_tensors)
                for name, (formula, by_formula, in_tensors) in counts.items()
            ],
        ),
        chart=line_chart(rows, x="context", y="parameters", series="positions", log="xy"),
        caption=f"Parameters of position encodings against context length, for {layers} layers, "
        f"{heads} heads and width {width}.",
        checks=[
            *(
                equal(f"{name}: parameters", counts[name][2], expected.get(name, 0))
                for name in kinds
            ),
            equal(
                "formulas, all encodings",
                [by_formula for _, by_formula, _ in counts.values()],
                [in_tensors for _, _, in_tensors in counts.values()],
            ),
        ],
        see_also=[
            "attention/positions/relative.py",
            "core/ledger.py",
            "recipes/positions.toml",
        ],
    )


def _without_parameters() -> dict[str, PositionKind]:
    """The encodings of the catalogue without parameters."""
    kinds = [entry.part() for entry in POSITIONS]
    shape = HeadShape(width=2, heads=1, context=8)
    return {
        catalog_name(kind, POSITIONS): kind
        for kind in kinds
        if isinstance(kind, PositionKind)
        and not kind.embedding_parameters(width=2, context=8)
        and not kind.relative_parameters(shape)
    }


def _terms(family: Decoder) -> list[ParameterCount]:
    """The terms of the model's own parameter count that belong to positions."""
    return [term for term in family.count_parameters(vocabulary=4) if "position" in term.name]


def _count(family: Decoder) -> tuple[str, int, int]:
    """The formula, its value, and the parameters in the built model's tensors."""
    terms = _terms(family)
    tensors = {
        name: tensor.numel()
        for name, tensor in family.build(vocabulary=4, seed=0).named_parameters()
        if name.startswith("embedding.positions.") or ".relative_position." in name
    }
    formula = " + ".join(term.formula for term in terms)
    return formula, total_parameters(terms), sum(tensors.values())


def _family(kind: PositionKind, context: int, *, layers: int, heads: int, width: int) -> Decoder:
    return Decoder(
        positions=kind,
        context=context,
        layers=layers,
        heads=heads,
        width=width,
        tied=False,
        mlp_width=1,
    )


@exercise("position-counts")
def position_counts_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    heads, layers, context, clip = draw(2, 9), draw(2, 7), draw(20, 200), draw(3, 17)
    size = {"context": context, "layers": layers, "heads": heads, "width": heads * draw(4, 17)}
    target = torch.tensor(
        [
            float(_count(_family(kind, **size))[2])
            for kind in (Learned(), Relative(), Relative(clip=clip), NoPositions())
        ],
        dtype=torch.float64,
    )

    def mark(answer: Answer) -> Mark:
        wrong = int((answer["counts"] != target).sum())
        return Mark(float(wrong), 0.0, f"{wrong} of {len(target)} counts are wrong.")

    return ExerciseSheet(
        task="How many parameters does the position encoding of this decoder have? Give four "
        "counts: learned; relative bias per layer, head and distance; relative bias clipped at "
        "±clip; no positions.",
        given={**size, "clip": clip},
        slots=(Slot("counts", (4,)),),
        mark=mark,
    )
