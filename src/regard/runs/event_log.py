"""The events of a run while it trains: to its log, to the observer, and to TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from regard.core.seal import break_seal
from regard.runs.experiment import Experiment, training_plan
from regard.runs.finish import now
from regard.runs.observer import Observer
from regard.runs.run import Run
from regard.training.checkpoint import TrainingState
from regard.training.events import Event, EventLog, OnEvent, RemarkEvent, ResumeEvent, StartEvent
from regard.training.forecast import StepForecast


@contextmanager
def event_log(
    run: Run, experiment: Experiment, state: TrainingState, observer: Observer
) -> Iterator[OnEvent]:
    """Sends events to events.jsonl, to the observer, and to TensorBoard if the recipe wants it."""
    # Of a finished run that lost its results or its model; both are made again.
    run.results_file.unlink(missing_ok=True)
    break_seal(run.folder)
    with ExitStack() as stack:
        log = EventLog(run.events_file, after_step=state.step)
        stack.callback(log.close)
        listeners: list[OnEvent] = [log, observer.on_event]
        if experiment.recipe.train.tensorboard:
            from regard.training.tensorboard import TensorBoardLog

            board = TensorBoardLog(run.folder / "tensorboard", after_step=state.step)
            stack.callback(board.close)
            listeners.append(board)

        forecast = StepForecast(training_plan(experiment))

        def on_event(event: Event) -> None:
            for listener in listeners:
                listener(event)
            if (forecast_event := forecast.update(event)) is not None:
                on_event(forecast_event)

        if log.damaged_lines:
            dropped = f"{run.events_file}: damaged lines were dropped ({log.damaged_lines})"
            on_event(RemarkEvent(step=state.step, text=dropped))
        yield on_event


def start_event(experiment: Experiment, state: TrainingState) -> Event:
    steps = experiment.loader.steps
    if state.step:
        return ResumeEvent(time=now(), step=state.step, steps=steps)
    parameters = sum(p.numel() for p in experiment.model.parameters())
    return StartEvent(time=now(), steps=steps, parameters=parameters)
