"""The forecast of a training from its own steps: right once it is made, and corrected."""

from __future__ import annotations

import pytest

from regard.training.events import EvaluationEvent, StepEvent
from regard.training.forecast import ForecastEvent, Plan, StepForecast


def simulate(
    plan: Plan,
    *,
    step_seconds: list[float],
    evaluation_seconds: float,
    sample_seconds: float = 0.0,
    log_every: int = 10,
    warmup_seconds: float = 0.0,
) -> tuple[list[ForecastEvent], float]:
    """The forecasts of a training with these costs, and its seconds."""
    clock, found = warmup_seconds, []
    forecast = StepForecast(plan, clock=lambda: clock)
    for step in range(1, plan.steps + 1):
        clock += step_seconds[step - 1]
        evaluates = bool(plan.evaluate_every) and step % plan.evaluate_every == 0
        if evaluates or step % log_every == 0:
            event = StepEvent(step=step, loss=1.0, tokens=step * 90, seconds=clock)
            found.append(forecast.update(event))
        if evaluates:
            clock += evaluation_seconds
            assert forecast.update(EvaluationEvent(step=step, loss=1.0, n=5)) is None
            clock += sample_seconds
    return [event for event in found if event is not None], clock


PLAN = Plan(
    steps=1000,
    evaluate_every=200,
    batch_positions=100,
    dev_positions=400,
    final_positions=2000,
    parameters=7,
)


def test_the_first_forecast_leaves_out_the_warmup_and_comes_early() -> None:
    forecasts, seconds = simulate(
        PLAN, step_seconds=[0.02] * 1000, evaluation_seconds=0.03, warmup_seconds=5.0
    )
    first = forecasts[0]
    assert first.step <= 40
    assert first.forecast.steps == 1000
    assert first.forecast.tokens == 90_000
    assert first.forecast.parameters == 7
    final = 2000 * 0.03 / 400
    assert first.forecast.total_seconds == pytest.approx(seconds + final, rel=0.1)


def test_evaluations_are_counted_as_they_turn_out_to_be() -> None:
    """Ten times as slow as an update lets expect."""
    forecasts, seconds = simulate(PLAN, step_seconds=[0.02] * 1000, evaluation_seconds=3.0)
    assert forecasts[0].forecast.total_seconds < 0.8 * seconds
    corrected = next(event for event in forecasts if event.step > 200)
    assert corrected.step <= 220
    final = 2000 * 3.0 / 400
    assert corrected.forecast.total_seconds == pytest.approx(seconds + final, rel=0.05)
    assert corrected.forecast.seconds == pytest.approx(20.0, rel=0.05)


def test_a_training_that_slows_down_is_forecast_again() -> None:
    steps = [0.02] * 300 + [0.06] * 700
    forecasts, seconds = simulate(PLAN, step_seconds=steps, evaluation_seconds=0.03)
    assert forecasts[0].forecast.total_seconds < 0.5 * seconds
    assert any(300 < event.step < 600 for event in forecasts)
    assert forecasts[-1].forecast.total_seconds == pytest.approx(seconds, rel=0.15)


def test_a_steady_training_is_forecast_once() -> None:
    forecasts, _ = simulate(PLAN, step_seconds=[0.02] * 1000, evaluation_seconds=0.027)
    assert len(forecasts) == 1


def test_batches_of_different_lengths_are_forecast_by_their_mean() -> None:
    steps = [0.03, 0.03, 0.06] * 333 + [0.03]
    forecasts, seconds = simulate(PLAN, step_seconds=steps, evaluation_seconds=0.0, log_every=1)
    assert forecasts[0].step <= 30
    assert forecasts[0].forecast.seconds == pytest.approx(seconds, rel=0.1)


def test_samples_take_time_after_each_evaluation_but_not_in_the_final_one() -> None:
    forecasts, seconds = simulate(
        PLAN, step_seconds=[0.02] * 1000, evaluation_seconds=0.03, sample_seconds=2.0
    )
    final = 2000 * 0.03 / 400
    assert forecasts[-1].forecast.total_seconds == pytest.approx(seconds + final, rel=0.02)


def test_slow_steps_are_forecast_after_a_few() -> None:
    steps = [20.0] * 1000
    forecasts, _ = simulate(PLAN, step_seconds=steps, evaluation_seconds=1.0, log_every=1)
    assert forecasts[0].step <= 4


def test_an_evaluation_before_the_first_forecast_is_counted_once() -> None:
    plan = Plan(
        steps=40,
        evaluate_every=2,
        batch_positions=100,
        dev_positions=400,
        final_positions=0,
        parameters=7,
    )
    forecasts, seconds = simulate(
        plan, step_seconds=[0.1] * 40, evaluation_seconds=1.0, log_every=1
    )
    assert forecasts[0].forecast.total_seconds == pytest.approx(seconds, rel=0.05)


def test_single_slow_steps_move_nothing() -> None:
    steps = [2.0 if step % 97 == 50 else 0.02 for step in range(1000)]
    forecasts, _ = simulate(PLAN, step_seconds=steps, evaluation_seconds=0.03, log_every=1)
    assert forecasts[0].forecast.seconds == pytest.approx(20.0, rel=0.1)
