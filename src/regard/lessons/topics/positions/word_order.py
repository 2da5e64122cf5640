"""Word order: what a model without positions can distinguish, and what a causal mask adds.

Shapes: b batch, t positions, w model width. Masks: True = may attend.
"""

from __future__ import annotations

from typing import Annotated

import torch

from regard.attention.positions import POSITIONS, PositionKind
from regard.attention.positions.none import NoPositions
from regard.core.settings import read_settings, settings_class
from regard.lessons import (
    Answer,
    ExerciseSheet,
    Heatmap,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    above,
    bar_chart,
    below,
    exercise,
    lesson,
    max_difference,
    near,
)
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.inputs import ModelInputs

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

    An encoder cannot. Without positions its scores depend on the tokens alone, so it is permutation
    equivariant: permuting the tokens permutes their hidden states. Every word has the same hidden
    state in both sentences, and so has any sum or mean of them. Every position encoding breaks this
    symmetry.

    This is often said of all Transformers, but holds for encoders only. A decoder's causal mask
    encodes order: earlier positions attend to fewer tokens. One layer still gives the last position
    the same bag of words; from the second layer on, the positions it attends to have seen different
    prefixes.
    """
    kinds = [entry.name for entry in POSITIONS]
    encoders = {
        name: _difference(_build(Encoder, _positions(name), layers=layers, seed=seed))
        for name in kinds
    }
    one, two = (_difference(_build(Decoder, NoPositions(), layers=n, seed=seed)) for n in (1, 2))
    differences = {**encoders, "decoder, 1 layer": one, "decoder, 2 layers": two}
    mean_change, token_change = _permutation_change(
        _build(Encoder, NoPositions(), layers=layers, seed=seed), length, seed=seed
    )
    return Lesson(
        table=LessonTable(
            ("positions", "distance between the sentences"), list(differences.items())
        ),
        chart=bar_chart(
            [{"positions": name, "distance": size} for name, size in differences.items()],
            name="positions",
            value="distance",
        ),
        caption="Distance between the hidden states of the final full stop in the two sentences: "
        "zero for an encoder without positions and for a decoder of one layer. Neither decoder has "
        "positions.",
        checks=[
            near("distance, encoder without positions", encoders["none"], 0, within=1e-12),
            *(
                above(f"distance, encoder, {name}", encoders[name], 1e-3)
                for name in kinds
                if name != "none"
            ),
            near("distance, decoder of 1 layer without positions", one, 0, within=1e-12),
            above("distance, decoder of 2 layers without positions", two, 1e-3),
            below(
                f"{length} tokens permuted: change of a token's hidden state", token_change, 1e-12
            ),
            below(f"{length} tokens permuted: change of the mean", mean_change, 1e-12),
        ],
        see_also=[
            "attention/positions/none.py",
            "models/blocks/embedding.py",
            "recipes/positions.toml",
        ],
    )


def _positions(name: str) -> PositionKind:
    """A position encoding by its name in recipes."""
    found = read_settings(settings_class(POSITIONS, name), {})
    assert isinstance(found, PositionKind)
    return found


@torch.no_grad()
def _build(
    family: type[Encoder | Decoder], positions: PositionKind, *, layers: int, seed: int
) -> SequenceModel:
    """A small model; relative biases, constant at initialisation, get random values."""
    settings = family(
        layers=layers,
        heads=4,
        width=WIDTH,
        context=32,
        positions=positions,
        init_std=WIDTH**-0.5,
    )
    model = settings.build(vocabulary=len(WORDS), seed=seed).double().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "relative_position" in name:
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


@torch.no_grad()
def _difference(model: SequenceModel) -> float:
    """Distance between the hidden states of the two sentences at the final full stop."""
    states = model.hidden_states(ModelInputs(torch.tensor([_ids(MAN_FIRST), _ids(DOG_FIRST)])))
    return float((states[0, -1] - states[1, -1]).norm())


@torch.no_grad()
def _permutation_change(model: SequenceModel, length: int, *, seed: int) -> tuple[float, float]:
    """Change of the mean hidden state, and of each token's, when tokens are permuted."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(len(WORDS), (length,), generator=generator)
    order = torch.randperm(length, generator=generator)
    before, after = (model.hidden_states(ModelInputs(each[None]))[0] for each in (ids, ids[order]))
    mean_change = max_difference(before.mean(dim=0), after.mean(dim=0))
    return mean_change, max_difference(before[order], after)


def _ids(words: list[str]) -> list[int]:
    return [WORDS.index(word) for word in words]


@exercise("word-order")
def word_order_exercise(seed: int) -> ExerciseSheet:
    sentences = _sentences(seed)
    model = _build(Encoder, NoPositions(), layers=2, seed=0)
    with torch.no_grad():
        means = model.hidden_states(
            ModelInputs(torch.tensor([_ids(words) for words in sentences]))
        ).mean(dim=1)
    indistinguishable = torch.cdist(means, means) < 1e-9

    def mark(answer: Answer) -> Mark:
        wrong = answer["alike"] != indistinguishable
        feedback = f"{int(wrong.sum())} of {wrong.numel()} pairs are wrong; your answer is drawn."
        labels = [str(number + 1) for number in range(len(sentences))]
        attention_map = Heatmap(labels, labels, answer["alike"].double())
        return Mark(float(wrong.sum()), 0.0, feedback, attention_map)

    return ExerciseSheet(
        task="An encoder without positions encodes these sentences, and a classification head "
        "gets the mean of its hidden states. alike[i][j] is true where no head can tell sentence i "
        "from sentence j.",
        given={"sentences": [" ".join(words) for words in sentences]},
        slots=(Slot("alike", (len(sentences), len(sentences)), element_type="flags"),),
        mark=mark,
    )


def _sentences(seed: int) -> list[list[str]]:
    """Five sentences of five words from two bags of words, each in random order."""
    generator = torch.Generator().manual_seed(seed)
    base = [WORDS[int(i)] for i in torch.randint(len(WORDS), (5,), generator=generator)]
    other = [WORDS[(WORDS.index(base[0]) + 1) % len(WORDS)], *base[1:]]
    bags = [base, base, base, other, other]
    order = torch.randperm(5, generator=generator).tolist()
    return [[bags[i][int(n)] for n in torch.randperm(5, generator=generator)] for i in order]
