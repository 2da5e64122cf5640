"""Live display of a training: stages, a progress bar with loss and scores, samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from regard.cli.console import side_console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from regard.runs.observer import Observer


@contextmanager
def training_display() -> Iterator[Observer]:
    """An observer that prints to standard error: bars in a terminal, lines otherwise."""
    from regard.runs.observer import Observer

    display = Display()
    with display.bars:
        yield Observer(on_event=display.on_event, on_progress=display.on_progress)


class Display:
    def __init__(self) -> None:
        self.console = side_console()
        self.bars = _bars()
        self.stages: dict[str, TaskID] = {}
        self.training: TaskID | None = None
        self.steps = 0
        self.status = {"loss": "", "dev": "", "speed": ""}
        self.last_step = (0.0, 0)  # seconds, tokens

    def on_progress(self, stage: str, done: int, total: int | None) -> None:
        if stage not in self.stages:
            for task in self.stages.values():
                self.bars.update(task, visible=False)
            self.stages[stage] = self.bars.add_task(stage, status="")
        self.bars.update(self.stages[stage], completed=done, total=total)

    def on_event(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "forecast":
                self.steps = event["steps"]
                self.console.print(f"  {forecast_sentence(event)}", markup=False)
            case "audit":
                is_valid = event["verdict"] == "clean" and not event["broken"]
                text = f"  audit  {event['sentence']}"
                style = "dim" if is_valid else "bold red"
                self.console.print(text, style=style, markup=False, soft_wrap=True)
            case "start" | "resume":
                self._start(event)
            case "step":
                self._step(event)
            case "evaluation":
                self._evaluation(event)
            case "sample" if event["texts"]:
                text = " ".join(event["texts"][-1].split())
                self.console.print(f"       “{text[:100]}…”", style="dim", markup=False)
            case "remark":
                text = f"  {event['text']}"
                self.console.print(text, style="yellow", markup=False, soft_wrap=True)
            case "finish" if self.training is not None:
                self.bars.update(self.training, visible=False)

    def _start(self, event: dict[str, Any]) -> None:
        for task in self.stages.values():
            self.bars.update(task, visible=False)
        if event["event"] == "resume":
            self.console.print(f"  resuming at step {event['step']:,}")
        self.training = self.bars.add_task(
            "training", total=event.get("steps"), completed=event.get("step", 0), status=""
        )

    def _step(self, event: dict[str, Any]) -> None:
        seconds, tokens = self.last_step
        if event["seconds"] > seconds:
            speed = (event["tokens"] - tokens) / (event["seconds"] - seconds)
            self.status["speed"] = f"{speed:,.0f} tokens/s" if tokens else ""
        self.last_step = (event["seconds"], event["tokens"])
        self.status["loss"] = f"loss {event['loss']:.3f}"
        self._update(event["step"])

    def _evaluation(self, event: dict[str, Any]) -> None:
        from regard.evaluation.formatting import quantity

        self.status["dev"] = "dev " + ", ".join(
            f"{name.replace('_', ' ')} {format_score(value)}"
            for name, value in event["scores"].items()
        )
        self._update(event["step"])
        self.console.print(
            f"  step {event['step']:>6,}  {self.status['loss']}  {self.status['dev']} "
            f"({quantity(event['n'], event['items'])})  {self.status['speed']}",
            markup=False,
        )

    def _update(self, step: int) -> None:
        if self.training is not None:
            status = "  ".join(text for text in self.status.values() if text)
            self.bars.update(self.training, completed=step, status=status)


def format_score(value: float) -> str:
    """Three decimals below 1, one above."""
    return f"{value:.3f}" if abs(value) < 1 else f"{value:,.1f}"


def forecast_sentence(forecast: dict[str, Any]) -> str:
    """`800 steps · 2,600,000 tokens · about 130 s of training and 9 s of evaluation · …`"""
    peak = forecast["memory_bytes"]
    memory = "" if peak is None else f"{peak / 1e9:.1f} GB · "
    return (
        f"{forecast['steps']:,} steps · {forecast['tokens']:,} tokens · "
        f"about {duration(forecast['seconds'])} of training "
        f"and {duration(forecast['evaluation_seconds'])} of evaluation · "
        f"{memory}{forecast['parameters']:,} parameters"
    )


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 90:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _bars() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f}"),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(compact=True),
        console=side_console(),
        transient=True,
    )
