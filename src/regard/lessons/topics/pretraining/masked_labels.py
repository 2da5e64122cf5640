"""Masked language modelling: corrupted inputs, labels, and which positions have a loss.

    loss = −Σ_{t selected} log p(x_t | corrupted sequence)          Devlin et al., 2019

Shapes: b batch, t positions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import numpy as np

from regard.batch import Batch, Example, Ints, collate
from regard.data.special_tokens import single_sequence
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word import Word
from regard.lessons import (
    Answer,
    Check,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    bar_chart,
    equal,
    exercise,
    lesson,
    near,
)
from regard.models.families.encoder import Encoder
from regard.models.model import token_losses
from regard.objectives import Vocabulary
from regard.objectives.masked import Masked

TEXT = (
    "the moon goes round the earth in about four weeks and turns once in that time so that we "
    "always see the same side of it"
)
DRAWS = 1000
STANDARD_ERRORS = 5
"Tolerance of a measured fraction: beyond it with a probability of one in a million."


@lesson("masked-labels", topic="pretraining", title="Labels of a masked language model")
def masked_labels(
    *,
    masking_rate: Annotated[float, Range(0.05, 0.5)] = 0.15,
    replace_with_mask: Annotated[float, Range(0, 0.9)] = 0.8,
    seed: Seed = 0,
) -> Lesson:
    """What is masked in masked language modelling, and what has to be predicted?

    15 % of the tokens are selected; of these 80 % are replaced by `[MASK]`, 10 % by a random token,
    and 10 % are kept. The label is the original token at every selected position, including the
    kept ones, and no other position has a loss. Since any input token may be corrupted, the model
    has to represent every position well, not only `[MASK]`, which never occurs in downstream text.

    A random token equals the original with probability 1/V for a vocabulary of V tokens: slightly
    less than 10 % of the selected tokens visibly change.
    """
    tokenizer = Word(minimum_count=1).train(iter([TEXT]))
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    ids = np.array(single_sequence(tokenizer.encode(TEXT), tokenizer).ids)
    objective = Masked(
        masking_rate=masking_rate,
        replace_with_mask=replace_with_mask,
        replace_with_random=(1 - replace_with_mask) / 2,
    )
    generator = np.random.default_rng(seed)
    shown = _masked_example(objective, ids, generator, vocabulary)
    examples = [_masked_example(objective, ids, generator, vocabulary) for _ in range(DRAWS)]
    selected, fractions = _replacement_fractions(examples, tokenizer.require("mask"))
    ordinary = int((~vocabulary.is_special[ids]).sum())
    replaced = objective.replace_with_random * (1 - 1 / len(vocabulary.ordinary))
    expected = {
        "[MASK]": replace_with_mask,
        "another token": replaced,
        "unchanged": 1 - replace_with_mask - replaced,
    }
    return Lesson(
        table=LessonTable(
            ("position", "token", "input", "label", "has loss"),
            _table_rows(shown, tokenizer),
        ),
        chart=bar_chart(
            [
                {"input": name, "fraction of selected tokens": value, "": source}
                for name, probability in expected.items()
                for source, value in (("measured", fractions[name]), ("expected", probability))
            ],
            name="input",
            value="fraction of selected tokens",
            series="",
        ),
        caption=f"Inputs at {selected:,} selected positions: measured and expected fractions.",
        checks=[
            equal(
                "selected tokens per sequence",
                sorted({int(example.weights.sum()) for example in examples}),
                [objective.budget(ordinary)],
            ),
            equal(
                "selected special tokens",
                sum(
                    int(vocabulary.is_special[one.targets[one.weights > 0]].sum())
                    for one in examples
                ),
                0,
            ),
            equal("labels are the original tokens", shown.targets.tolist(), ids.tolist()),
            *(
                near(
                    f"fraction, {name}",
                    fractions[name],
                    probability,
                    within=STANDARD_ERRORS * math.sqrt(probability * (1 - probability) / selected),
                )
                for name, probability in expected.items()
            ),
            *_loss_checks(shown, tokenizer, seed=seed),
        ],
        see_also=["objectives/masked.py", "objectives/masking.py", "recipes/mini-bert.toml"],
    )


def _masked_example(
    objective: Masked, ids: Ints, generator: np.random.Generator, vocabulary: Vocabulary
) -> Example:
    return objective.masked_example(ids, generator, vocabulary=vocabulary, segments=None)


def _table_rows(shown: Example, tokenizer: Tokenizer) -> list[tuple[int, str, str, str, bool]]:
    """One row per selected position and its neighbours."""
    labels = tokenizer.tokens(shown.targets)
    inputs = tokenizer.tokens(shown.inputs)
    has_loss = shown.weights > 0
    shown_positions = np.flatnonzero(np.convolve(has_loss, [1, 1, 1], mode="same") > 0)
    return [
        (
            int(position),
            labels[position],
            inputs[position],
            labels[position] if has_loss[position] else "–",
            bool(has_loss[position]),
        )
        for position in shown_positions
    ]


def _replacement_fractions(examples: list[Example], mask: int) -> tuple[int, dict[str, float]]:
    """Number of selected tokens, and the fraction of each replacement."""
    inputs, targets, weights = (
        np.concatenate([getattr(example, name) for example in examples])
        for name in ("inputs", "targets", "weights")
    )
    inputs, targets = inputs[weights > 0], targets[weights > 0]
    replaced_by = {"[MASK]": inputs == mask, "unchanged": inputs == targets}
    replaced_by["another token"] = ~(replaced_by["[MASK]"] | replaced_by["unchanged"])
    return len(inputs), {name: float(flags.mean()) for name, flags in replaced_by.items()}


def _loss_checks(shown: Example, tokenizer: Tokenizer, *, seed: int) -> list[Check]:
    """With an encoder: only labels at selected positions change the loss."""
    model = Encoder(layers=1, heads=2, width=16, context=64).build(
        vocabulary=tokenizer.size, seed=seed
    )

    def batch_of(example: Example) -> Batch:
        return collate([example], pad_id=tokenizer.padding_id, rows=[0])

    def loss(example: Example) -> float:
        return float(model(batch_of(example))["token"].sum.detach())

    selected = shown.weights > 0
    other = (shown.targets + 1) % tokenizer.size
    other_labels = replace(shown, targets=np.where(selected, shown.targets, other))
    selected_labels = replace(shown, targets=np.where(selected, other, shown.targets))
    losses = token_losses(model, batch_of(shown))[0].detach().numpy()
    return [
        near(
            "loss = sum over selected positions",
            loss(shown),
            float(losses[selected].sum()),
            within=1e-4,
        ),
        equal("loss when labels at all other positions change", loss(other_labels), loss(shown)),
        equal(
            "loss unchanged when labels at selected positions change",
            loss(selected_labels) == loss(shown),
            False,
        ),
    ]


@exercise("masked-labels")
def masked_labels_exercise(seed: int) -> ExerciseSheet:
    generator = np.random.default_rng(seed)
    words = TEXT.split()
    begin = int(generator.integers(len(words) - 10))
    tokens = words[begin : begin + 10]
    positions = np.sort(generator.choice(10, size=4, replace=False))
    replacements = generator.permutation(["[MASK]", "[MASK]", "random", "keep"])
    random = str(generator.choice(sorted(set(words) - set(tokens))))
    inputs = list(tokens)
    for position, replacement in zip(positions, replacements, strict=True):
        if replacement != "keep":
            inputs[position] = "[MASK]" if replacement == "[MASK]" else random
    labels = [token if position in positions else "-" for position, token in enumerate(tokens)]

    def mark(answer: Answer) -> Mark:
        wrong = {
            name: sum(a != b for a, b in zip(answer[name], target, strict=True))
            for name, target in (("inputs", inputs), ("labels", labels))
        }
        feedback = f"{wrong['inputs']} of 10 inputs and {wrong['labels']} of 10 labels are wrong."
        return Mark(sum(wrong.values()) / 20, 0.0, feedback)

    return ExerciseSheet(
        task="Given are the tokens of a sequence, the selected positions (from 0), how each is "
        "replaced, and the random token. Give the model's inputs and the labels it has to "
        'predict ("-" where there is no loss).',
        given={
            "tokens": tokens,
            "selected": positions.tolist(),
            "replaced_by": replacements.tolist(),
            "random": random,
        },
        slots=(
            Slot("inputs", (10,), element_type="words"),
            Slot("labels", (10,), element_type="words"),
        ),
        mark=mark,
    )
