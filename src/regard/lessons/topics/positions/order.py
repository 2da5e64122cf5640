"""Word order: what a model without positions can tell, and what a causal mask gives away.

Shapes: b rows, t places, w model width. Masks: True = may attend.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from regard.attention.positions import POSITIONS, PositionKind
from regard.attention.positions.none import NoPositions
from regard.core.settings import read_settings, settings_class
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, Weights, exercise
from regard.lessons.lesson import Lesson, LessonTable, above, below, near
from regard.lessons.lesson_charts import bars
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder

MAN_FIRST = ["the", "man", "chased", "the", "dog", "."]
DOG_FIRST = ["the", "dog", "chased", "the", "man", "."]
WORDS = sorted({*MAN_FIRST, *DOG_FIRST})
WIDTH = 32


@lesson("word-order", topic="positions", title="Who chased whom")
def word_order(
    *,
    layers: Annotated[int, Range(1, 4)] = 2,
    length: Annotated[int, Range(2, 32)] = 12,
    seed: Seed = 0,
) -> Lesson:
    """Can attention without positions tell "the man chased the dog" from "the dog chased the man"?

    An encoder cannot. Without positions its scores depend on words alone, so when words change
    places their vectors change places with them and stay what they were: every word has the same
    vector in both sentences, and any sum or mean of them is the same. Each kind of positions breaks
    this.

    It is often said of all Transformers, and it is true of encoders. A decoder's mask tells order:
    who stands earlier sees less. One layer of it still gives the last place the same bag of words;
    from the second layer on, what it looks at has already seen different pasts.
    """
    kinds = [entry.name for entry in POSITIONS]
    apart = {
        name: _difference(_encoder(_positions(name), layers=layers, seed=seed)) for name in kinds
    }
    one, two = (_difference(_decoder(layers=n, seed=seed)) for n in (1, 2))
    told = {**apart, "decoder, 1 layer": one, "decoder, 2 layers": two}
    bag, moved = _shuffled(_encoder(NoPositions(), layers=layers, seed=seed), length, seed=seed)
    return Lesson(
        table=LessonTable(("positions", "difference between the sentences"), list(told.items())),
        chart=bars(
            [{"positions": name, "difference": size} for name, size in told.items()],
            name="positions",
            value="difference",
        ),
        caption="How far apart the vectors of the full stop are after the two sentences: nought "
        "for an encoder without positions, and for a decoder of one layer; neither decoder "
        "has any.",
        checks=[
            near("difference, encoder without positions", apart["none"], 0, within=1e-12),
            *(above(f"difference, {name}", apart[name], 1e-3) for name in kinds if name != "none"),
            near("difference, decoder of 1 layer without positions", one, 0, within=1e-12),
            above("difference, decoder of 2 layers without positions", two, 1e-3),
            below(f"{length} words in another order: change of each word's vector", moved, 1e-12),
            below(f"{length} words in another order: change of their mean", bag, 1e-12),
        ],
        see=["attention/positions/none.py", "models/blocks/embedding.py", "recipes/positions.toml"],
    )


def _positions(name: str) -> PositionKind:
    """A kind of positions by its name, as a recipe has it."""
    found = read_settings(settings_class(POSITIONS, name), {})
    assert isinstance(found, PositionKind)
    return found


def _encoder(positions: PositionKind, *, layers: int, seed: int) -> SequenceModel:
    family = Encoder(
        layers=layers,
        heads=4,
        width=WIDTH,
        context=32,
        positions=positions,
        init_std=WIDTH**-0.5,
    )
    model = family.build(vocabulary=len(WORDS), seed=seed).double().eval()
    _draw_biases(model, seed=seed)
    return model


def _decoder(*, layers: int, seed: int) -> SequenceModel:
    family = Decoder(
        layers=layers,
        heads=4,
        width=WIDTH,
        positions=NoPositions(),
        init_std=WIDTH**-0.5,
    )
    return family.build(vocabulary=len(WORDS), seed=seed).double().eval()


@torch.no_grad()
def _draw_biases(model: SequenceModel, *, seed: int) -> None:
    """Relative biases start from values that say nothing yet: as if some had been learnt."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "relation" in name:
            parameter.copy_(torch.randn(parameter.shape, generator=generator))


@torch.no_grad()
def _difference(model: SequenceModel) -> float:
    """Between what stands at the last place of the two sentences, where both have a full stop."""
    rows = model.encode(torch.tensor([_ids(MAN_FIRST), _ids(DOG_FIRST)]))
    return float((rows[0, -1] - rows[1, -1]).norm())


@torch.no_grad()
def _shuffled(model: SequenceModel, length: int, *, seed: int) -> tuple[float, float]:
    """By how much the mean over a row changes in another order, and each word's own vector."""
    generator = torch.Generator().manual_seed(seed)
    row = torch.randint(len(WORDS), (length,), generator=generator)
    order = torch.randperm(length, generator=generator)
    before, after = model.encode(row[None])[0], model.encode(row[order][None])[0]
    moved = float((before[order] - after).abs().max())
    return float((before.mean(dim=0) - after.mean(dim=0)).abs().max()), moved


def _ids(words: list[str]) -> list[int]:
    return [WORDS.index(word) for word in words]


@exercise("word-order")
def word_order_exercise(seed: int) -> ExerciseSheet:
    rows = _sentences(seed)
    model = _encoder(NoPositions(), layers=2, seed=0)
    with torch.no_grad():
        means = model.encode(torch.tensor([_ids(row) for row in rows])).mean(dim=1)
    alike = torch.cdist(means, means) < 1e-9

    def mark(answer: Answer) -> Mark:
        wrong = answer["alike"] != alike
        says = f"{int(wrong.sum())} of {wrong.numel()} pairs are wrong; drawn is what you gave."
        names = [str(number + 1) for number in range(len(rows))]
        return Mark(
            float(wrong.sum()), 0.0, says, Weights(names, names, answer["alike"].to(torch.float64))
        )

    return ExerciseSheet(
        task="An encoder without positions reads these rows, and a head sees the mean of its "
        "vectors. alike[i][j] is true where no head can tell row i from row j.",
        given={"rows": [" ".join(row) for row in rows]},
        slots=(Slot("alike", (len(rows), len(rows)), of="flags"),),
        mark=mark,
    )


def _sentences(seed: int) -> list[list[str]]:
    """Five rows of five words: some the same bag in another order, one of them twice a word."""
    generator = torch.Generator().manual_seed(seed)
    base = [WORDS[int(i)] for i in torch.randint(len(WORDS), (5,), generator=generator)]
    other = [WORDS[(WORDS.index(base[0]) + 1) % len(WORDS)], *base[1:]]
    bags = [base, base, base, other, other]
    order = torch.randperm(5, generator=generator).tolist()
    return [_in_another_order(bags[i], generator) for i in order]


def _in_another_order(words: list[str], generator: torch.Generator) -> list[str]:
    order: Tensor = torch.randperm(len(words), generator=generator)
    return [words[int(i)] for i in order]
