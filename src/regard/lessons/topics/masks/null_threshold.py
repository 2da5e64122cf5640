"""The null threshold: when a span model should abstain because the passage has no answer.

    null = S·C + E·C at [CLS]    best = max_{j ≥ i} S·T_i + E·T_j    answer where best ≥ null + τ

Devlin et al., 2019; Rajpurkar et al., 2018. Masked here are positions: an answer may neither begin
nor end in the question, and never end before it begins. Shapes: b questions, t positions.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.batch import Batch
from regard.evaluation.metrics.question_answering import (
    best_threshold,
    exact_match_and_f1,
    should_answer,
)
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
    above,
    below,
    equal,
    exercise,
    lesson,
    line_chart,
    near,
)
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.families.encoder import Encoder
from regard.models.heads.task_heads import SpanHead, SpanLogits
from regard.models.task_models.span_model import SpanModel, best_spans

LENGTH, PASSAGE_START, WIDTH = 16, 4, 8
"Sequence length; first position of the passage, after [CLS] and the question; hidden size."
SIGNAL = 2.5
"Strength of the signal in the hidden states at the true start and end."
NULL_BIAS = 1.5
"By which the synthetic model overrates [CLS]: models are seldom calibrated."
POPULATION, REPEATS = 3000, 20
"Questions that represent the population; dev samples drawn to choose τ on."


class ScoredQuestions(NamedTuple):
    """Null and best-span scores, and each question's F1 if answered and if not; (b) each."""

    null: NDArray[np.float64]
    best: NDArray[np.float64]
    if_answered: NDArray[np.float64]
    if_null: NDArray[np.float64]

    def f1(self, tau: float) -> float:
        answered = should_answer(self.null, self.best, tau)
        return float(np.where(answered, self.if_answered, self.if_null).mean())


@lesson("null-threshold", topic="masks", title="When to predict that there is no answer")
def null_threshold(
    *,
    questions: Annotated[int, Range(20, 200)] = 60,
    answerable: Annotated[float, Range(0.2, 0.8)] = 0.5,
    seed: Seed = 0,
) -> Lesson:
    """From which score on should a span model answer, and what does tuning the threshold cost?

    The score of the best span, max S·T_i + E·T_j with j ≥ i, is compared with the null score
    S·C + E·C at [CLS]: the model answers where best ≥ null + τ. F1 against τ is a step function
    from "always" to "never", and its maximum is seldom at τ = 0, since nothing calibrates the two
    scores; this synthetic model overrates [CLS]. Independent argmaxes of start and end may yield a
    span that ends before it begins: hence j ≥ i.

    The maximum is partly luck. On the dev questions where τ was tuned, F1 is higher than with the
    optimal τ of the population; on the population it is lower. So τ is tuned on dev, frozen, and
    evaluated on test.
    """
    dev, population = (
        _score_questions(n, answerable, seed=seed + n) for n in (questions, POPULATION)
    )
    tuned, optimal = best_threshold(*dev), best_threshold(*population)
    gained, lost = _selection_bias(questions, answerable, population, optimal.tau, seed=seed)
    lowest, highest = tuned.curve[0][0], tuned.curve[-1][0]
    best_on_grid = max(dev.f1(tau) for tau in np.linspace(lowest, highest, 999))
    steps = [{"τ": tau, "F1 on dev": f1} for tau, f1 in tuned.curve]
    thresholds = {"always answer": lowest, "τ = 0": 0.0, "tuned on dev": tuned.tau}
    start, end = torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[0.0, 4.0, 1.0]])
    span = [float(value) for value in best_spans(SpanLogits(start, end), max_length=3)]
    return Lesson(
        table=LessonTable(
            ("threshold", "τ", "F1 on dev", f"F1 on population of {POPULATION:,}"),
            [
                *((name, tau, dev.f1(tau), population.f1(tau)) for name, tau in thresholds.items()),
                ("optimal for the population", optimal.tau, dev.f1(optimal.tau), optimal.f1),
                ("never answer", math.inf, dev.f1(math.inf), population.f1(math.inf)),
            ],
        ),
        chart=line_chart(steps, x="τ", y="F1 on dev", interpolate="step"),
        caption="F1 on dev against τ: on the left every question is answered, on the right none.",
        checks=[
            below(
                "best F1 on dev over 999 other τ, at most that of the tuned τ",
                best_on_grid,
                tuned.f1 + 1e-12,
            ),
            below("optimal τ of the population", optimal.tau, -0.5),
            _null_score_check(seed),
            equal("best span with j ≥ i: first, last, score", span, [1.0, 1.0, 5.0]),
            equal(
                "independent argmaxes: start, end", [int(start.argmax()), int(end.argmax())], [2, 1]
            ),
            above("F1 gained on dev by tuning on it", gained, 1e-4),
            above("F1 lost on the population by tuning on dev", lost, 1e-4),
        ],
        see_also=[
            "models/task_models/span_model.py",
            "evaluation/metrics/question_answering.py",
            "recipes/passages.toml",
        ],
    )


def _score_questions(questions: int, answerable: float, *, seed: int) -> ScoredQuestions:
    """Synthetic hidden states with a signal at the true start and end, scored by `SpanHead`."""
    generator = torch.Generator().manual_seed(seed)
    has_answer = torch.rand(questions, generator=generator) < answerable
    first = torch.randint(PASSAGE_START, LENGTH - 1, (questions,), generator=generator)
    last = (first + torch.randint(3, (questions,), generator=generator)).clamp(max=LENGTH - 1)
    x = torch.randn(questions, LENGTH, WIDTH, generator=generator)
    rows = torch.arange(questions)
    x[rows[has_answer], first[has_answer], 0] += SIGNAL
    x[rows[has_answer], last[has_answer], 1] += SIGNAL
    x[rows[~has_answer], 0, :2] += SIGNAL
    x[:, 0, :2] += NULL_BIAS
    begins, ends, best, null, *_ = _span_model(x).predict(_batch(questions), max_length=LENGTH)
    predicted = _span_texts(begins, ends)
    truths = [
        [text] if answer else []
        for text, answer in zip(_span_texts(first, last), has_answer, strict=True)
    ]
    if_answered = [exact_match_and_f1(*pair)[1] for pair in zip(predicted, truths, strict=True)]
    if_null = [exact_match_and_f1("", truth)[1] for truth in truths]
    scores = (null.double().numpy(), best.double().numpy())
    return ScoredQuestions(*scores, np.array(if_answered), np.array(if_null))


def _null_score_check(seed: int) -> Check:
    x = torch.randn(3, LENGTH, WIDTH, generator=torch.Generator().manual_seed(seed))
    model = _span_model(x)
    s, e = model.head.boundaries.weight
    found = model.predict(_batch(len(x)), max_length=LENGTH).null_score
    return near("null scores: S·C + E·C", found, x[:, 0] @ s + x[:, 0] @ e, within=1e-5)


class SyntheticSpanModel(SpanModel):
    """A `SpanModel` whose hidden states are given instead of computed."""

    given: Tensor

    def hidden_states(self, batch: Batch) -> Tensor:
        return self.given


@cache
def _body() -> SequenceModel:
    family = Encoder(layers=1, heads=1, width=WIDTH, context=LENGTH + 1)
    return family.build(vocabulary=1, seed=0)


def _span_model(x: Tensor) -> SyntheticSpanModel:
    model = SyntheticSpanModel(_body(), SpanHead(WIDTH), seed=0).requires_grad_(False)
    model.head.boundaries.weight.copy_(torch.eye(2, WIDTH))  # S and E orthonormal
    model.given = F.pad(x, (0, 0, 0, 1))  # the [SEP] that closes the passage
    return model


def _batch(questions: int) -> Batch:
    """Sequences of [CLS], question, passage and the final [SEP]."""
    ids = torch.zeros(questions, LENGTH + 1, dtype=torch.int64)
    return Batch(
        ids=ids,
        targets=ids,
        weights=torch.ones(questions),
        valid=torch.ones_like(ids, dtype=torch.bool),
        segments=(torch.arange(LENGTH + 1) >= PASSAGE_START).long().expand(questions, -1),
        rows=tuple(range(questions)),
        labels=ids[:, :2],
    )


def _span_texts(first: Tensor, last: Tensor) -> list[str]:
    """Each span as a text of its position numbers."""
    ends = zip(first.tolist(), last.tolist(), strict=True)
    return [" ".join(f"w{position}" for position in range(a, b + 1)) for a, b in ends]


def _selection_bias(
    questions: int,
    answerable: float,
    population: ScoredQuestions,
    optimal_tau: float,
    *,
    seed: int,
) -> tuple[float, float]:
    """Mean F1 that tuning on a dev sample gains on it and loses on the population."""
    gained, lost = [], []
    for number in range(REPEATS):
        dev = _score_questions(questions, answerable, seed=seed + POPULATION + 1 + 7919 * number)
        tau = best_threshold(*dev).tau
        gained.append(dev.f1(tau) - dev.f1(optimal_tau))
        lost.append(population.f1(optimal_tau) - population.f1(tau))
    return float(np.mean(gained)), float(np.mean(lost))


@exercise("null-threshold")
def null_threshold_exercise(seed: int) -> ExerciseSheet:
    scored = _score_questions(12, 0.5, seed=seed)
    null, best = (np.round(scores, 1) for scores in (scored.null, scored.best))
    rounded = ScoredQuestions(null, best, np.round(scored.if_answered, 2), scored.if_null)
    best_f1 = best_threshold(*rounded).f1

    def mark(answer: Answer) -> Mark:
        f1 = rounded.f1(float(answer["tau"][0]))
        feedback = f"Your τ has F1 {f1:.1%} on these questions; the maximum is {best_f1:.1%}."
        return Mark(best_f1 - f1, 1e-9, feedback)

    return ExerciseSheet(
        task="A model answers a question where best ≥ null + τ. if_answered is the question's F1 "
        "when it answers, if_null when it does not. Find a τ with the highest mean F1.",
        given={
            "null": torch.from_numpy(null),
            "best": torch.from_numpy(best),
            "if_answered": torch.from_numpy(rounded.if_answered),
            "if_null": torch.from_numpy(rounded.if_null),
        },
        slots=(Slot("tau", (1,)),),
        mark=mark,
    )
