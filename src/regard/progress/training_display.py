"""Live display of a training: stages, a progress bar with loss and scores, samples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from regard.evaluation.formatting import duration, number, quantity
from regard.progress.bars import progress_bars
from regard.runs.observer import SILENT, Observer
from regard.runs.results import AuditEvent
from regard.training import events
from regard.training.events import EvaluationEvent, Event, StepEvent
from regard.training.forecast import Forecast, ForecastEvent


@contextmanager
def training_display(console: Console | None) -> Iterator[Observer]:
    """An observer that prints to the console: bars in a terminal or a notebook, lines elsewhere;
    silent without a console."""
    if console is None:
        yield SILENT
        return
    display = TrainingDisplay(console)
    with display.bars:
        yield Observer(on_event=display.on_event, on_progress=display.on_progress)


class ExpectedEnd(TimeRemainingColumn):
    """Time until the forecast end of a training, with its evaluations; of other work, until the
    end at its present speed."""

    def render(self, task: Task) -> Text:
        if "ends" not in task.fields:
            return super().render(task)
        seconds = max(0, round(task.fields["ends"] - time.monotonic()))
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
        return Text(clock, style="progress.remaining")


class TrainingDisplay:
    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars = progress_bars(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:,.0f}"),
            TextColumn("{task.fields[status]}"),
            ExpectedEnd(compact=True),
            console=console,
        )
        self.stages: dict[str, TaskID] = {}
        self.training: TaskID | None = None
        self.status = {"loss": "", "dev": "", "speed": ""}
        self.last_step = (0.0, 0)  # seconds, tokens
        self.has_forecast = False

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        if stage not in self.stages:
            for task in self.stages.values():
                self.bars.update(task, visible=False)
            self.stages[stage] = self.bars.add_task(stage, status="")
        self.bars.update(self.stages[stage], completed=done, total=total)

    def on_event(self, event: Event) -> None:
        match event:
            case ForecastEvent():
                self._forecast(event)
            case AuditEvent():
                is_clean = event.audit.verdict == "clean" and event.audit.is_valid
                text = f"  audit  {event.audit.sentence}"
                style = "dim" if is_clean else "bold red"
                self.console.print(text, style=style, markup=False, soft_wrap=True)
            case events.StartEvent():
                self._start(event.steps)
            case events.ResumeEvent():
                self.console.print(f"  resuming at step {event.step:,}")
                self._start(event.steps, done=event.step)
            case events.StepEvent():
                self._step(event)
            case events.EvaluationEvent():
                self._evaluation(event)
            case events.SamplesEvent() if event.texts:
                text = " ".join(event.texts[-1].split())
                self.console.print(f"       “{text[:100]}…”", style="dim", markup=False)
            case events.RemarkEvent():
                text = f"  {event.text}"
                self.console.print(text, style="yellow", markup=False, soft_wrap=True)
            case events.FinishEvent() if self.training is not None:
                self.bars.update(self.training, visible=False)

    def _forecast(self, event: ForecastEvent) -> None:
        """The first as a line; later ones correct the expected end of the bar alone."""
        if not self.has_forecast:
            self.console.print(f"  {forecast_sentence(event.forecast)}", markup=False)
        self.has_forecast = True
        if self.training is not None:
            ends = time.monotonic() + max(0.0, event.forecast.total_seconds - event.seconds)
            self.bars.update(self.training, ends=ends)

    def _start(self, steps: int | None, *, done: int = 0) -> None:
        for task in self.stages.values():
            self.bars.update(task, visible=False)
        self.training = self.bars.add_task("training", total=steps, completed=done, status="")

    def _step(self, event: StepEvent) -> None:
        seconds, tokens = self.last_step
        self.last_step = (event.seconds or 0.0, event.tokens or 0)
        if self.last_step[0] > seconds:
            speed = (self.last_step[1] - tokens) / (self.last_step[0] - seconds)
            self.status["speed"] = f"{speed:,.0f} tokens/s" if tokens else ""
        self.status["loss"] = f"loss {event.loss:.3f}"
        self._update(event.step)

    def _evaluation(self, event: EvaluationEvent) -> None:
        self.status["dev"] = "dev " + ", ".join(
            f"{name.replace('_', ' ')} {number(value)}" for name, value in event.scores.items()
        )
        self._update(event.step)
        self.console.print(
            f"  step {event.step:>6,}  {self.status['loss']}  {self.status['dev']} "
            f"({quantity(event.n, event.items)})  {self.status['speed']}",
            markup=False,
        )

    def _update(self, step: int) -> None:
        if self.training is not None:
            status = "  ".join(text for text in self.status.values() if text)
            self.bars.update(self.training, completed=step, status=status)


def forecast_sentence(forecast: Forecast) -> str:
    """`800 steps · 2,600,000 tokens · about 2 min 10 s of training and 9.0 s of evaluation · …`"""
    peak = forecast.memory_bytes
    memory = "" if peak is None else f"{peak / 1e9:.1f} GB · "
    return (
        f"{quantity(forecast.steps, 'steps')} · {quantity(forecast.tokens, 'tokens')} · "
        f"about {duration(forecast.seconds)} of training "
        f"and {duration(forecast.evaluation_seconds)} of evaluation · "
        f"{memory}{forecast.parameters:,} parameters"
    )
