"""A folder of runs with hostile texts in every name, label and sample, and the page over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reports.synthetic_study import outcome_with, write_runs
from tests.web.asgi import guarded
from tests.web.drawn_study import draw_study
from tests.web.trained_runs import TASKS, train_runs

from regard.web.app import build_app

HOSTILE_FOLDER = "<img src=x onerror=alert(3)> 'a\" & {{7*7}}"


@pytest.fixture(scope="session")
def hostile_root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("hostile") / "runs"
    outcome = outcome_with("dot", "additive", "zero-masked", seeds=2)
    outcome.name = "dot-vs-additive"
    write_runs(root / HOSTILE_FOLDER, outcome)
    return root


@pytest.fixture(autouse=True)
def _many_requests(monkeypatch) -> None:
    """Tests ask more often than a person does, and wait until everything is read."""
    monkeypatch.setattr("regard.web.guard.PER_SECOND", 1e9)
    monkeypatch.setattr("regard.web.listing.PATIENCE", 60.0)


@pytest.fixture(scope="session")
def app(hostile_root):
    return guarded(build_app(hostile_root))


@pytest.fixture(scope="session")
def trained_root(tmp_path_factory) -> Path:
    """Runs that were really trained: one that writes, a classifier, and refused ones."""
    return train_runs(tmp_path_factory.mktemp("trained"), tasks=["classifier"])


@pytest.fixture(scope="session")
def task_root(tmp_path_factory) -> Path:
    """The same with a run of every task, for long tests."""
    return train_runs(tmp_path_factory.mktemp("tasks"), tasks=TASKS)


@pytest.fixture(scope="session")
def drawn_study(tmp_path_factory) -> Path:
    """The folder of a finished study of 2 variants and 3 seeds, whose losses were drawn."""
    variants = {"other": {}, "one": {"train.lr": 0.02}}
    return draw_study(tmp_path_factory.mktemp("drawn"), variants=variants, seeds=3)
