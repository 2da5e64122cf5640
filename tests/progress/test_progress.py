"""Progress is shown in a terminal and in a notebook, as one output of the cell; else nothing is."""

import builtins
import io
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

from regard.progress import bars
from regard.progress import study_display as study_display_module
from regard.progress.bars import default_console
from regard.progress.study_display import study_display
from regard.progress.training_display import training_display
from regard.runs.observer import SILENT, StudyProgress
from regard.training.events import EvaluationEvent, RemarkEvent, StartEvent, StepEvent


class ZMQInteractiveShell:
    """Named as the shell of a Jupyter kernel, which is what rich looks for."""


class Kernel:
    """What a notebook displays: each output as its successive versions."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = []

    def display(self, html: str, *, display_id: bool) -> SimpleNamespace:
        assert display_id
        output = [html]
        self.outputs.append(output)
        return SimpleNamespace(update=output.append)


@pytest.fixture
def kernel(monkeypatch):
    fake = Kernel()
    module = ModuleType("IPython.display")
    module.display, module.HTML = fake.display, str
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setattr(bars, "SECONDS_BETWEEN_UPDATES", 0.0)
    return fake


def train(observer) -> None:
    observer.on_event(StartEvent(steps=20))
    observer.on_event(StepEvent(step=10, loss=2.5, tokens=640, seconds=1.0))
    observer.on_event(EvaluationEvent(step=10, loss=2.0, scores={"perplexity": 7.4}, n=30))
    observer.on_event(RemarkEvent(text="<script>alert(1)</script>"))


def test_notebook_has_one_output_of_lines_and_bars(kernel):
    with training_display(default_console()) as observer:
        train(observer)
    [versions] = kernel.outputs
    assert any("training" in html and "loss 2.500" in html for html in versions)
    last = versions[-1]
    assert "dev perplexity 7.400 (30 documents)" in last
    assert "training" not in last, "bars are gone at the end"
    assert "<script>" not in last
    assert "&lt;script&gt;" in last


def test_updates_of_a_notebook_are_limited(kernel, monkeypatch):
    monkeypatch.setattr(bars, "SECONDS_BETWEEN_UPDATES", 3600.0)
    with training_display(default_console()) as observer:
        observer.on_event(StartEvent(steps=500))
        for step in range(1, 500):
            observer.on_event(StepEvent(step=step, loss=1.0))
    [versions] = kernel.outputs
    assert len(versions) == 2


def test_notebook_has_no_output_while_nothing_is_shown(kernel):
    with training_display(default_console()):
        pass
    assert kernel.outputs == []


def test_study_has_a_bar_for_each_training_and_a_line_for_each_finished_one(kernel):
    job = SimpleNamespace(
        title="dot · seed 0",
        folder=Path("runs/study/dot/seed-0"),
        recipe=SimpleNamespace(train=SimpleNamespace(max_steps=40)),
    )
    with study_display(default_console()) as observer:
        observer.on_job("started", job, "")
        observer.on_job("running", job, "step 20")
        observer.on_job("failed", job, "no memory")
    [versions] = kernel.outputs
    assert any("step 20" in html for html in versions)
    assert "✗ dot · seed 0: no memory" in versions[-1]
    assert "step 20" not in versions[-1]


def test_study_says_nodes_slots_runs_and_the_expected_end(monkeypatch, kernel):
    clock = [0.0]
    monkeypatch.setattr(study_display_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with study_display(default_console()) as observer:
        observer.on_study(StudyProgress(2, 12, slots=6, nodes=3))
        clock[0] = 3600.0
        observer.on_study(StudyProgress(4, 12, slots=4, nodes=2))
    end = datetime.now() + timedelta(hours=4)
    [versions] = kernel.outputs
    assert any("4 of 12 · 2 nodes, 4 slots · ends about " in html for html in versions)
    assert any(f"{end:%H:%M}" in html or f"{end:%H}:" in html for html in versions)
    assert "3 nodes, 6 slots" in versions[-1], "what came and went stays"
    assert "2 nodes, 4 slots" in versions[-1]


def test_hundreds_of_trainings_have_few_bars():
    file = io.StringIO()
    jobs = [
        SimpleNamespace(
            title=f"dot · seed {seed}",
            folder=Path(f"seed-{seed}"),
            recipe=SimpleNamespace(train=SimpleNamespace(max_steps=40)),
        )
        for seed in range(300)
    ]
    console = Console(file=file, force_terminal=True, width=100, height=400)
    with study_display(console) as observer:
        for job in jobs:
            observer.on_job("running", job, "step 20")
    assert 0 < file.getvalue().count("dot · seed") < 300


def test_terminal_gets_progress_and_redirected_output_none(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert default_console() is None
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    console = default_console()
    assert console is not None
    assert not console.record
    with training_display(console) as observer:
        train(observer)
    assert "dev perplexity 7.4" in terminal.getvalue()


@pytest.mark.parametrize("display", [training_display, study_display])
def test_without_a_console_nothing_is_observed(display):
    with display(None) as observer:
        assert observer is SILENT


def test_console_of_the_command_is_written_to():
    file = io.StringIO()
    with training_display(Console(file=file, width=100)) as observer:
        train(observer)
    assert "loss 2.500" in file.getvalue()
