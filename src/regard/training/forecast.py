"""Forecast of a training's time and memory: measured, not estimated by a formula.

While a training runs, its own first steps are the measurement, and every evaluation on dev corrects
it (`StepForecast`). Without a training, a throw-away copy of the model is updated a few times
(`forecast_by_trial`). Both count evaluation on dev and the final results; baselines and samples are
not included. Memory is the process's peak after those steps.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from statistics import median
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
MIN_WINDOWS = 2
"Step events behind the first forecast of a running training, beside its first one."
RECENT_WINDOWS = 20
"Step events whose median speed is expected of the remaining steps."
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

    @property
    def evaluations(self) -> int:
        return self.steps // self.evaluate_every if self.evaluate_every else 0


class StepForecast:
    """The forecast of a running training, from its own events."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._windows: deque[float] = deque(maxlen=RECENT_WINDOWS)
        "Seconds of a step, by step event; those with an evaluation in between are left out."
        self._pauses: list[float] = []
        "Seconds of each evaluation on dev, with samples and checkpoint."
        self._last: StepEvent | None = None
        self._evaluated = False
        self._warm = False
        self._said: Forecast | None = None

    def update(self, event: Event) -> ForecastEvent | None:
        """The first forecast once there is one, and a correction where it was wrong."""
        if isinstance(event, EvaluationEvent):
            self._evaluated = True
        if not isinstance(event, StepEvent) or event.seconds is None:
            return None
        self._count(event)
        if len(self._windows) < MIN_WINDOWS:
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
        if evaluated and self._windows:
            self._pauses.append(max(0.0, seconds - steps * median(self._windows)))
        elif not evaluated and steps > 0 and self._warm:
            self._windows.append(seconds / steps)
        self._warm = True

    def _forecast(self, event: StepEvent) -> Forecast:
        plan, done = self.plan, event.seconds or 0.0
        step_seconds = median(self._windows)
        if self._pauses and plan.dev_positions:
            pause = sum(self._pauses) / len(self._pauses)
            position_seconds = pause / plan.dev_positions
        else:
            position_seconds = FORWARD_FRACTION * step_seconds / plan.batch_positions
            pause = plan.dev_positions * position_seconds
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
    step_seconds = median(update_seconds[WARMUP_STEPS:] or update_seconds or [0.0])
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
