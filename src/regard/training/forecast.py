"""Forecast of a training's time and memory: measured, not estimated by a formula.

While a training runs, its own first steps are the measurement, and every evaluation on dev corrects
it (`StepForecast`). Without a training, a throw-away copy of the model is updated a few times
(`forecast_by_trial`). Both count evaluation on dev and the final results; the running one also the
samples and checkpoints that follow an evaluation. Baselines of tasks are fitted before, those of
language models and intervals are not included. Memory is the process's peak after those steps.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Literal

from regard.batch import Batch
from regard.core.process.peak_memory import peak_memory_bytes
from regard.models.model import Model
from regard.training.device import Machine
from regard.training.events import EvaluationEvent, Event, StepEvent
from regard.training.loop import update
from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

WARMUP_STEPS = 3
"Of a trial, not timed: memory is taken from the system, threads start, code pages are read."
MIN_TRIAL_STEPS, MAX_TRIAL_STEPS = 8, 40
TRIAL_SECONDS = 2.0
"A trial ends here if it has the fewest steps already."
MAX_TRIAL_SECONDS = 20.0
"A trial ends here with however many steps it has, but not without any."
MAX_EVALUATION_SECONDS = 5.0
"An evaluation on dev that takes longer is estimated instead."
FORWARD_FRACTION = 1 / 3
"Of the time of an update, as long as no evaluation was timed: backward costs twice as much."
MIN_WINDOWS, MIN_STEPS, MIN_FRACTION = 2, 8, 0.02
"""Step events behind the first forecast of a running training, beside its first one; their steps,
for batches of rows of different lengths differ; and which fraction of all steps these are, for
one pause weighs much among few short steps."""
ENOUGH_SECONDS = 10.0
"Of steps that took longer together, two will do."
RECENT_WINDOWS = 20
"Step events whose mean speed is expected of the remaining steps."
OUTLIER = 3.0
"Times the median: a step that waited for something else, which the others will not."
CORRECTION = 0.1
"Relative change of the whole that is worth another forecast."


@dataclass(frozen=True)
class Forecast:
    """Expected cost of a training."""

    steps: int
    tokens: int
    seconds: float
    "Training time."
    evaluation_seconds: float
    "Time for evaluation on dev and for the final results."
    memory_bytes: int | None
    "Peak memory of this process; None where the system does not report it."
    parameters: int

    def as_dict(self) -> dict[str, float | None]:
        return asdict(self)

    @property
    def total_seconds(self) -> float:
        return self.seconds + self.evaluation_seconds


class ForecastEvent(Event):
    event: Literal["forecast"] = "forecast"
    forecast: Forecast
    step: int = 0
    "After which it was made: a later one corrects it."
    seconds: float = 0.0
    "Of the training until then, evaluation included."


@dataclass(frozen=True)
class Plan:
    """How much there is to do."""

    steps: int
    evaluate_every: int
    "0: no evaluation while training."
    batch_positions: float
    "Of an update, padding included."
    dev_positions: int
    "Of one evaluation on dev."
    final_positions: int
    "Of the final results."
    parameters: int
    position_seconds: float | None = None
    "Of a position in evaluation, if it was timed before the training."

    @property
    def evaluations(self) -> int:
        return self.steps // self.evaluate_every if self.evaluate_every else 0


class StepForecast:
    """The forecast of a running training, from its own events."""

    def __init__(self, plan: Plan, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.plan = plan
        self._clock = clock
        "Read at each event: an evaluation has the seconds of the step before it."
        self._windows: deque[tuple[int, float]] = deque(maxlen=RECENT_WINDOWS)
        "Steps and seconds between step events; those with an evaluation in between are left out."
        self._pauses: list[float] = []
        "Seconds of each evaluation on dev, with samples and checkpoint."
        self._evaluations: list[float] = []
        "Seconds of each evaluation on dev alone, of which the final results are made."
        self._last: StepEvent | None = None
        self._last_at = 0.0
        self._evaluated = False
        self._warm = False
        self._said: Forecast | None = None

    def update(self, event: Event) -> ForecastEvent | None:
        """The first forecast once there is one, and a correction where it was wrong."""
        if isinstance(event, EvaluationEvent):
            self._evaluated = True
            self._evaluations.append(self._clock() - self._last_at)
        if not isinstance(event, StepEvent) or event.seconds is None:
            return None
        self._last_at = self._clock()
        self._count(event)
        timed_steps, timed_seconds = (
            sum(one) for one in zip((0, 0.0), *self._windows, strict=True)
        )
        enough = timed_steps >= max(MIN_STEPS, MIN_FRACTION * self.plan.steps)
        if len(self._windows) < MIN_WINDOWS or not (enough or timed_seconds >= ENOUGH_SECONDS):
            return None
        now = self._forecast(event)
        if self._said is not None:
            before = self._said.total_seconds
            if abs(now.total_seconds - before) <= CORRECTION * before:
                return None
        self._said = now
        return ForecastEvent(forecast=now, step=event.step, seconds=event.seconds)

    def _count(self, event: StepEvent) -> None:
        last, self._last = self._last, event
        evaluated, self._evaluated = self._evaluated, False
        if last is None or last.seconds is None or event.seconds is None:
            return
        steps, seconds = event.step - last.step, event.seconds - last.seconds
        if evaluated:
            beside = seconds - steps * self._step_seconds() if self._windows else 0.0
            self._pauses.append(max(self._evaluations[-1], beside))
        elif not evaluated and steps > 0 and self._warm:
            self._windows.append((steps, seconds))
        self._warm = True

    def _step_seconds(self) -> float:
        return typical_seconds([seconds / steps for steps, seconds in self._windows])

    def _forecast(self, event: StepEvent) -> Forecast:
        plan, done = self.plan, event.seconds or 0.0
        step_seconds = self._step_seconds()
        if self._evaluations and plan.dev_positions:
            position_seconds = mean(self._evaluations) / plan.dev_positions
        elif plan.position_seconds is not None:
            position_seconds = plan.position_seconds
        else:
            position_seconds = FORWARD_FRACTION * step_seconds / plan.batch_positions
        pause = mean(self._pauses) if self._pauses else plan.dev_positions * position_seconds
        remaining = plan.evaluations - len(self._pauses)
        evaluation = sum(self._pauses) + remaining * pause + plan.final_positions * position_seconds
        training = done - sum(self._pauses) + (plan.steps - event.step) * step_seconds
        return Forecast(
            steps=plan.steps,
            tokens=round(plan.steps * (event.tokens or 0) / event.step),
            seconds=training,
            evaluation_seconds=evaluation,
            memory_bytes=peak_memory_bytes(),
            parameters=plan.parameters,
        )


def typical_seconds(times: Sequence[float]) -> float:
    """Mean without outliers: the median would be that of the longer or of the shorter batches."""
    most = OUTLIER * median(times)
    return mean(one for one in times if one <= most)


def forecast_by_trial(
    model: Model,
    batches: list[Batch],
    settings: Train,
    plan: Plan,
    *,
    evaluate: Callable[[Model], object],
    machine: Machine,
) -> Forecast:
    """Time updates of a copy of the model, and an evaluation of it on dev."""
    copy = deepcopy(model).train()
    optimizer = build_optimizer(copy, settings)
    update_seconds: list[float] = []
    started = time.perf_counter()
    for step in range(MAX_TRIAL_STEPS) if plan.steps else ():
        began = time.perf_counter()
        seconds = TRIAL_SECONDS if step >= MIN_TRIAL_STEPS else MAX_TRIAL_SECONDS
        if step and began > started + seconds:
            break
        batch = batches[step % len(batches)]
        # A learning rate of 0 costs the same and cannot diverge.
        update(copy, optimizer, batch, step=step + 1, lr=0.0, settings=settings, machine=machine)
        update_seconds.append(time.perf_counter() - began)
    step_seconds = typical_seconds(update_seconds[WARMUP_STEPS:] or update_seconds or [0.0])
    position_seconds = FORWARD_FRACTION * step_seconds / plan.batch_positions
    if plan.dev_positions and plan.dev_positions * position_seconds <= MAX_EVALUATION_SECONDS:
        began = time.perf_counter()
        evaluate(copy.eval())
        position_seconds = (time.perf_counter() - began) / plan.dev_positions
    positions = plan.evaluations * plan.dev_positions + plan.final_positions
    tokens = sum(batch.tokens for batch in batches) / len(batches)
    return Forecast(
        steps=plan.steps,
        tokens=round(plan.steps * tokens),
        seconds=plan.steps * step_seconds,
        evaluation_seconds=positions * position_seconds,
        memory_bytes=peak_memory_bytes(),
        parameters=plan.parameters,
    )
