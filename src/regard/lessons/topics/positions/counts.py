"""What positions cost in parameters: formulas against the tensors of built models.

    learned: T·w        relative: L·h·(2(T − 1) + 1)        clipped at ±k: L·h·(2k + 1)

T context, w model width, L layers, h heads.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch

from regard.attention.function import HeadShape
from regard.attention.positions import POSITIONS, PositionKind
from regard.attention.positions.learned import Learned
from regard.attention.positions.none import NoPositions
from regard.attention.positions.relative import Relative
from regard.core.count import Term, total
from regard.core.settings import name_of
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Lesson, LessonTable, equal
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range
from regard.lessons.registry import lesson
from regard.models.families.decoder import Decoder


@lesson("position-counts", topic="positions", title="What positions cost in parameters")
def position_counts(
    *,
    context: Annotated[int, Range(4, 1024)] = 100,
    layers: Annotated[int, Range(1, 6)] = 3,
    heads: Annotated[int, Range(1, 8)] = 3,
    half_head: Annotated[int, Range(1, 8)] = 4,
    clip: Annotated[int, Range(1, 3)] = 3,
) -> Lesson:
    """How many parameters does each kind of positions have?

    Learned positions are a table, T·w numbers, once. A relative bias has one number for each
    distance from −(T−1) to T−1 and each head, 2(T−1) + 1 = 2T − 1 of them, in every layer that has
    its own: L·h·(2T − 1); clipped at ±k it is L·h·(2k + 1), whatever the context. Sinusoids,
    rotations and slopes follow from formulas and have none. Formula and tensors are compared for
    each.
    """
    width = 2 * heads * half_head  # rotations turn pairs: heads of an even width
    kinds: dict[str, PositionKind] = {
        "learned": Learned(),
        "learned, half the width": Learned(combine="concatenate", own_width=width // 2),
        "relative": Relative(),
        f"relative, clipped at {clip}": Relative(clip=clip),
        **_without_parameters(),
    }
    size: dict[str, Any] = {"layers": layers, "heads": heads, "width": width}
    found = {name: _counted(kind, context=context, **size) for name, kind in kinds.items()}
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
            "parameters": total(_terms(kind, context=length, **size)),
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
                (name, formula or "nothing is trained", counted, tensors)
                for name, (formula, counted, tensors) in found.items()
            ],
        ),
        chart=curves(rows, x="context", y="parameters", series="positions", log="xy"),
        caption=f"Parameters of positions against the context, for {layers} layers, {heads} heads "
        f"and a width of {width}.",
        checks=[
            *(
                equal(f"{name}: tensors, as worked out", found[name][2], expected.get(name, 0))
                for name in kinds
            ),
            equal(
                "formulas, all kinds",
                [counted for _, counted, _ in found.values()],
                [tensors for _, _, tensors in found.values()],
            ),
        ],
        see=["attention/positions/relative.py", "core/count.py", "recipes/positions.toml"],
    )


def _without_parameters() -> dict[str, PositionKind]:
    """The kinds of the catalogue that follow from a formula."""
    made = [entry.part() for entry in POSITIONS]
    shape = HeadShape(width=2, heads=1, context=8)
    return {
        name_of(kind, POSITIONS): kind
        for kind in made
        if isinstance(kind, PositionKind)
        and not kind.vector_parameters(width=2, context=8)
        and not kind.relation_parameters(shape)
    }


def _terms(kind: PositionKind, *, context: int, layers: int, heads: int, width: int) -> list[Term]:
    """What the model's own count says of positions."""
    family = _family(kind, context=context, layers=layers, heads=heads, width=width)
    return [term for term in family.count(vocabulary=4) if "position" in term.name]


def _counted(
    kind: PositionKind, *, context: int, layers: int, heads: int, width: int
) -> tuple[str, int, int]:
    """Its formula, the formula's value, and the numbers in the built model's tensors."""
    size = {"context": context, "layers": layers, "heads": heads, "width": width}
    terms = _terms(kind, **size)
    model = _family(kind, **size).build(vocabulary=4, seed=0)
    tables = model.embedding.positions
    trained = [] if tables is None else list(tables.parameters())
    trained += [tensor for name, tensor in model.named_parameters() if ".relation." in name]
    formula = " + ".join(term.formula for term in terms)
    return formula, total(terms), sum(tensor.numel() for tensor in trained)


def _family(kind: PositionKind, **size: Any) -> Decoder:
    return Decoder(positions=kind, tied=False, mlp_width=1, **size)


@exercise("position-counts")
def position_counts_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)

    def drawn(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    heads, layers, context, clip = drawn(2, 9), drawn(2, 7), drawn(20, 200), drawn(3, 17)
    size: dict[str, Any] = {"context": context, "layers": layers, "heads": heads}
    size["width"] = heads * drawn(4, 17)
    wanted = torch.tensor(
        [
            float(_counted(kind, **size)[2])
            for kind in (Learned(), Relative(), Relative(clip=clip), NoPositions())
        ],
        dtype=torch.float64,
    )

    def mark(answer: Answer) -> Mark:
        wrong = int((answer["counts"] != wanted).sum())
        return Mark(float(wrong), 0.0, f"{wrong} of {len(wanted)} counts are wrong.")

    return ExerciseSheet(
        task="How many parameters do positions have in this decoder? Give four counts: learned; "
        "a relative bias per head, all distances, each layer its own; the same clipped at ±clip; "
        "none.",
        given={**size, "clip": clip},
        slots=(Slot("counts", (4,)),),
        mark=mark,
    )
