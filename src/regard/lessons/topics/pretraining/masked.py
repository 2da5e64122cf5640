"""Masked language modelling: what becomes of the chosen tokens, what their labels are, what counts.

    loss = −Σ_{t chosen} log p(x_t | the row with hidden places)          Devlin et al., 2019

Shapes: b rows, t places.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import numpy as np
import torch

from regard.batch import Example, Ints, collate
from regard.data.packing import one
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word import Word
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Check, Lesson, LessonTable, equal, near
from regard.lessons.lesson_charts import bars
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.families.encoder import Encoder
from regard.objectives import Vocabulary
from regard.objectives.masked import Masked

TEXT = (
    "the moon goes round the earth in about four weeks and turns once in that time so that we "
    "always see the same side of it"
)
DRAWS = 1000
STANDARD_ERRORS = 5
"How far a share may be from what is expected: further is a chance of one in a million."


@lesson("masked-labels", topic="pretraining", title="Labels of a masked language model")
def masked_labels(
    *,
    share: Annotated[float, Range(0.05, 0.5)] = 0.15,
    as_mask: Annotated[float, Range(0, 0.9)] = 0.8,
    seed: Seed = 0,
) -> Lesson:
    """What is hidden in masked language modelling, and what has to be told?

    Of the tokens, 15 % are chosen; 80 % of these become `[MASK]`, 10 % a random token, 10 % stay as
    they are. The label is the original token at every chosen place, also at those that were left
    alone, and no other place counts: the loss is a sum over the chosen ones. Since any token it
    sees may be a false one, the model has to know what belongs at every place, not at `[MASK]`
    alone, which no later text will show it.

    A random token may be the very one that stood there, once in as many draws as there are tokens:
    what is seen to change is a little less than 10 %.
    """
    tokenizer = Word(minimum_count=1).train(iter([TEXT]))
    vocabulary = Vocabulary.of(tokenizer)
    ids = np.array(one(tokenizer.encode(TEXT), tokenizer).ids)
    objective = Masked(share=share, as_mask=as_mask, as_random=(1 - as_mask) / 2)
    generator = np.random.default_rng(seed)
    shown = _hidden(objective, ids, generator, vocabulary)
    drawn = [_hidden(objective, ids, generator, vocabulary) for _ in range(DRAWS)]
    chosen, fates = _fates(drawn, tokenizer.require("mask"))
    ordinary = int((~vocabulary.is_special[ids]).sum())
    swapped = objective.as_random * (1 - 1 / len(vocabulary.ordinary))
    expected = {
        "[MASK]": as_mask,
        "another token": swapped,
        "as it was": 1 - as_mask - swapped,
    }
    return Lesson(
        table=LessonTable(
            ("place", "token", "input", "label", "counts"),
            _rows(shown, tokenizer),
        ),
        chart=bars(
            [
                {"what": what, "share of the chosen": value, "figure": figure}
                for what, law in expected.items()
                for figure, value in (("drawn", fates[what]), ("expected", law))
            ],
            name="what",
            value="share of the chosen",
            series="figure",
        ),
        caption=f"What became of {chosen:,} chosen tokens, beside what is expected.",
        checks=[
            equal("chosen of each row", _counts(drawn), [objective.budget(ordinary)]),
            equal("special tokens chosen", _specials_chosen(drawn, vocabulary), 0),
            equal("labels are the original tokens", shown.targets.tolist(), ids.tolist()),
            *(
                near(what, fates[what], law, within=STANDARD_ERRORS * _error(law, chosen))
                for what, law in expected.items()
            ),
            *_what_counts(shown, tokenizer, seed=seed),
        ],
        see=["objectives/masked.py", "objectives/masking.py", "recipes/mini-bert.toml"],
    )


def _hidden(
    objective: Masked, ids: Ints, generator: np.random.Generator, vocabulary: Vocabulary
) -> Example:
    return objective.hidden(ids, generator, vocabulary=vocabulary, segments=None)


def _rows(shown: Example, tokenizer: Tokenizer) -> list[tuple[int, str, str, str, bool]]:
    """A line for each place that is chosen, and for its neighbours."""
    told = tokenizer.tokens(shown.targets)
    read = tokenizer.tokens(shown.inputs)
    counts = shown.weights > 0
    near_one = np.convolve(counts, [1, 1, 1], mode="same") > 0
    return [
        (
            int(place),
            told[place],
            read[place],
            told[place] if counts[place] else "–",
            bool(counts[place]),
        )
        for place in np.flatnonzero(near_one)
    ]


def _fates(drawn: list[Example], mask: int) -> tuple[int, dict[str, float]]:
    """How many tokens were chosen, and the share of each fate."""
    inputs, targets, weights = (
        np.concatenate([getattr(example, name) for example in drawn])
        for name in ("inputs", "targets", "weights")
    )
    read, told = inputs[weights > 0], targets[weights > 0]
    shares = {"[MASK]": read == mask, "as it was": read == told}
    shares["another token"] = ~(shares["[MASK]"] | shares["as it was"])
    return len(read), {what: float(found.mean()) for what, found in shares.items()}


def _counts(drawn: list[Example]) -> list[int]:
    return sorted({int(example.weights.sum()) for example in drawn})


def _specials_chosen(drawn: list[Example], vocabulary: Vocabulary) -> int:
    return sum(int(vocabulary.is_special[row.targets[row.weights > 0]].sum()) for row in drawn)


def _error(share: float, count: int) -> float:
    return math.sqrt(share * (1 - share) / count)


def _what_counts(shown: Example, tokenizer: Tokenizer, *, seed: int) -> list[Check]:
    """By a real encoder: only the labels of chosen places move the loss."""
    model = Encoder(layers=1, heads=2, width=16, context=64).build(
        vocabulary=tokenizer.size, seed=seed
    )

    def loss(example: Example) -> float:
        term = model(collate([example], pad_id=tokenizer.padding, rows=[0]))["token"]
        return float(term.sum.detach())

    chosen = shown.weights > 0
    other = (shown.targets + 1) % tokenizer.size
    elsewhere = replace(shown, targets=np.where(chosen, shown.targets, other))
    there = replace(shown, targets=np.where(chosen, other, shown.targets))
    batch = collate([shown], pad_id=tokenizer.padding, rows=[0])
    with torch.no_grad():
        told = model.losses(batch)[0].numpy()
    return [
        near("loss = sum over the chosen", loss(shown), float(told[chosen].sum()), within=1e-4),
        equal("loss when labels of all other places change", loss(elsewhere), loss(shown)),
        equal("loss stays when labels of chosen places change", loss(there) == loss(shown), False),
    ]


@exercise("masked-labels")
def masked_labels_exercise(seed: int) -> ExerciseSheet:
    generator = np.random.default_rng(seed)
    words = TEXT.split()
    begin = int(generator.integers(len(words) - 10))
    row = words[begin : begin + 10]
    positions = np.sort(generator.choice(10, size=4, replace=False))
    fates = generator.permutation(["becomes [MASK]", "becomes [MASK]", "becomes random", "stays"])
    random = str(generator.choice(sorted(set(words) - set(row))))
    inputs = list(row)
    for place, fate in zip(positions, fates, strict=True):
        if fate != "stays":
            inputs[place] = "[MASK]" if fate == "becomes [MASK]" else random
    labels = [word if place in positions else "-" for place, word in enumerate(row)]

    def mark(answer: Answer) -> Mark:
        wrong = {
            name: sum(a != b for a, b in zip(answer[name], wanted, strict=True))
            for name, wanted in (("inputs", inputs), ("labels", labels))
        }
        says = f"{wrong['inputs']} of 10 inputs and {wrong['labels']} of 10 labels are wrong."
        return Mark(sum(wrong.values()) / 20, 0.0, says)

    return ExerciseSheet(
        task="Tokens of a row, the places that were chosen (the first is 0), what each of them "
        "becomes, and the token that a random one is. Give what the model reads (inputs) and what "
        'it has to tell (labels, "-" where nothing counts).',
        given={
            "tokens": row,
            "chosen": positions.tolist(),
            "becomes": fates.tolist(),
            "random": random,
        },
        slots=(Slot("inputs", (10,), of="words"), Slot("labels", (10,), of="words")),
        mark=mark,
    )
