"""The null threshold: when a reader should say that a passage holds no answer.

    null = S·C + E·C at [CLS]    best = max_{j ≥ i} S·T_i + E·T_j    answer where best ≥ null + τ

Devlin et al., 2019; Rajpurkar et al., 2018. What is masked here are places: an answer may neither
begin nor end in the question, and never end before it begins. Shapes: b questions, t places.
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
from regard.evaluation.metrics.question_answering import answers, best_threshold, exact_and_f1
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Check, Lesson, LessonTable, above, below, equal, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.families.encoder import Encoder
from regard.models.heads.heads import SpanHead, SpanLogits
from regard.models.task_models.span_model import SpanModel, best_spans

PLACES, FIRST, WIDTH = 16, 4, 8
"Of a row; where its passage begins, after [CLS] and the question; the width of a place's vector."
SIGN = 2.5
"How strongly the vectors at the true start and end stand out."
LEANING = 1.5
"How much too high the made-up reader rates [CLS]: a reader is seldom calibrated."
POOL, TIMES = 3000, 20
"Questions that stand for all there are; how often others are drawn to choose τ on."


class Read(NamedTuple):
    """What a reader makes of questions, and how they would be judged; (b) each."""

    null: NDArray[np.float64]
    best: NDArray[np.float64]
    if_answered: NDArray[np.float64]
    if_null: NDArray[np.float64]

    def f1(self, tau: float) -> float:
        given = answers(self.null, self.best, tau)
        return float(np.where(given, self.if_answered, self.if_null).mean())


@lesson("null-threshold", topic="masks", title="When to say that there is no answer")
def null_threshold(
    *,
    questions: Annotated[int, Range(20, 200)] = 60,
    answerable: Annotated[float, Range(0.2, 0.8)] = 0.5,
    seed: Seed = 0,
) -> Lesson:
    """From which score on should a reader answer, and what does choosing that score cost?

    The best span max S·T_i + E·T_j with j ≥ i stands against the null score S·C + E·C at [CLS]: an
    answer is given where best ≥ null + τ. F1 against τ is a staircase from "always" to "never", and
    its top is seldom at τ = 0, since nothing keeps the two scores on one scale; this made-up reader
    rates [CLS] too high. Start and end taken apart may end a span before it begins: hence j ≥ i.

    The top is partly luck. On the questions where τ was chosen F1 is higher than with the τ that is
    best in the long run, and on all questions it is lower. So τ is chosen on dev, frozen, and
    judged on test.
    """
    dev, pool = (_read(n, answerable, seed=seed + n) for n in (questions, POOL))
    chosen, lasting = best_threshold(*dev), best_threshold(*pool)
    gained, lost = _luck(questions, answerable, pool, lasting.tau, seed=seed)
    lowest, highest = chosen.curve[0][0], chosen.curve[-1][0]
    tried = max(dev.f1(tau) for tau in np.linspace(lowest, highest, 999))
    staircase = [{"τ": tau, "F1 on dev": f1} for tau, f1 in chosen.curve]
    shown = {"always answer": lowest, "τ = 0": 0.0, "chosen on dev": chosen.tau}
    start, end = torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([[0.0, 4.0, 1.0]])
    span = [float(one) for one in best_spans(SpanLogits(start, end), longest=3)]
    return Lesson(
        table=LessonTable(
            ("threshold", "τ", "F1 on dev", f"F1 on {POOL:,} others"),
            [
                *((name, tau, dev.f1(tau), pool.f1(tau)) for name, tau in shown.items()),
                ("best in the long run", lasting.tau, dev.f1(lasting.tau), lasting.f1),
                ("never answer", math.inf, dev.f1(math.inf), pool.f1(math.inf)),
            ],
        ),
        chart=curves(staircase, x="τ", y="F1 on dev", between="step"),
        caption="F1 against τ on dev: at the left every question is answered, at the right none.",
        checks=[
            below("F1 on dev at 999 other τ, at most that of the chosen", tried, chosen.f1 + 1e-12),
            below("the τ that is best in the long run", lasting.tau, -0.5),
            _null_at_cls(seed),
            equal("best span with j ≥ i: first, last, score", span, [1.0, 1.0, 5.0]),
            equal("taken apart: start and end", [int(start.argmax()), int(end.argmax())], [2, 1]),
            above("F1 gained on dev by choosing on it", gained, 1e-4),
            above("F1 lost on others by that choice", lost, 1e-4),
        ],
        see=[
            "models/task_models/span_model.py",
            "evaluation/metrics/question_answering.py",
            "recipes/passages.toml",
        ],
    )


def _read(questions: int, answerable: float, *, seed: int) -> Read:
    """Made-up questions, read by the real head: vectors with a sign at the true start and end."""
    generator = torch.Generator().manual_seed(seed)
    has = torch.rand(questions, generator=generator) < answerable
    first = torch.randint(FIRST, PLACES - 1, (questions,), generator=generator)
    last = (first + torch.randint(3, (questions,), generator=generator)).clamp(max=PLACES - 1)
    x = torch.randn(questions, PLACES, WIDTH, generator=generator)
    rows = torch.arange(questions)
    x[rows[has], first[has], 0] += SIGN
    x[rows[has], last[has], 1] += SIGN
    x[rows[~has], 0, :2] += SIGN
    x[:, 0, :2] += LEANING
    begins, ends, best, null, *_ = _reader(x).spans(_batch(questions), longest=PLACES)
    told = _texts(begins, ends)
    truths = [[text] if there else [] for text, there in zip(_texts(first, last), has, strict=True)]
    if_answered = [exact_and_f1(*pair)[1] for pair in zip(told, truths, strict=True)]
    if_null = [exact_and_f1("", truth)[1] for truth in truths]
    scores = (null.double().numpy(), best.double().numpy())
    return Read(*scores, np.array(if_answered), np.array(if_null))


def _null_at_cls(seed: int) -> Check:
    x = torch.randn(3, PLACES, WIDTH, generator=torch.Generator().manual_seed(seed))
    reader = _reader(x)
    s, e = reader.head.boundaries.weight
    found = reader.spans(_batch(len(x)), longest=PLACES).null_score
    return near("null scores: S·C + E·C", found, x[:, 0] @ s + x[:, 0] @ e, within=1e-5)


class GivenVectors(SpanModel):
    """The real reader, but for one thing: the vectors of its places are made up, not read."""

    given: Tensor

    def vectors(self, batch: Batch, *, recorder: AttentionRecorder | None = None) -> Tensor:
        return self.given


@cache
def _body() -> SequenceModel:
    family = Encoder(layers=1, heads=1, width=WIDTH, context=PLACES + 1)
    return family.build(vocabulary=1, seed=0)


def _reader(x: Tensor) -> GivenVectors:
    model = GivenVectors(_body(), SpanHead(WIDTH), seed=0).requires_grad_(False)
    model.head.boundaries.weight.copy_(torch.eye(2, WIDTH))  # S and E at right angles, of length 1
    model.given = F.pad(x, (0, 0, 0, 1))  # the [SEP] that closes the passage
    return model


def _batch(questions: int) -> Batch:
    """Rows of [CLS] and question, then a passage and the [SEP] that closes it."""
    ids = torch.zeros(questions, PLACES + 1, dtype=torch.int64)
    return Batch(
        ids=ids,
        targets=ids,
        weights=torch.ones(questions),
        valid=torch.ones_like(ids, dtype=torch.bool),
        segments=(torch.arange(PLACES + 1) >= FIRST).long().expand(questions, -1),
        rows=tuple(range(questions)),
        labels=ids[:, :2],
    )


def _texts(first: Tensor, last: Tensor) -> list[str]:
    """A span as words: the numbers of its places."""
    ends = zip(first.tolist(), last.tolist(), strict=True)
    return [" ".join(f"w{place}" for place in range(a, b + 1)) for a, b in ends]


def _luck(
    questions: int, answerable: float, pool: Read, lasting: float, *, seed: int
) -> tuple[float, float]:
    """What choosing on few questions gains on them and loses on all, on average."""
    gained, lost = [], []
    for number in range(TIMES):
        drawn = _read(questions, answerable, seed=seed + POOL + 1 + 7919 * number)
        tau = best_threshold(*drawn).tau
        gained.append(drawn.f1(tau) - drawn.f1(lasting))
        lost.append(pool.f1(lasting) - pool.f1(tau))
    return float(np.mean(gained)), float(np.mean(lost))


@exercise("null-threshold")
def null_threshold_exercise(seed: int) -> ExerciseSheet:
    read = _read(12, 0.5, seed=seed)
    null, best = (np.round(scores, 1) for scores in (read.null, read.best))
    rounded = Read(null, best, np.round(read.if_answered, 2), read.if_null)
    top = best_threshold(*rounded).f1

    def mark(answer: Answer) -> Mark:
        f1 = rounded.f1(float(answer["tau"][0]))
        says = f"Your τ gives F1 {f1:.1%} on these questions; {top:.1%} can be reached."
        return Mark(top - f1, 1e-9, says)

    return ExerciseSheet(
        task="A reader answers where best ≥ null + τ. if_answered is the F1 of a question when it "
        "answers, if_silent when it does not. Find a τ with the highest mean F1.",
        given={
            "null": torch.from_numpy(null),
            "best": torch.from_numpy(best),
            "if_answered": torch.from_numpy(rounded.if_answered),
            "if_silent": torch.from_numpy(rounded.if_null),
        },
        slots=(Slot("tau", (1,)),),
        mark=mark,
    )
