"""A folder of runs with hostile texts in every name, label and sample, and the page over it."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import pytest
import tomli_w
from tests.journeys.workspace import TINY, WORDS
from tests.reports.synthetic_study import outcome_with, write_runs
from tests.studies.drawn_trainings import DrawnTrainings
from tests.synthetic_run import event_lines
from tests.web.asgi import guarded
from tests.web.trained_runs import TASKS, train_runs

from regard.studies import compare
from regard.studies.engines import choice
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
    folder = tmp_path_factory.mktemp("drawn")
    sentences = [" ".join(words) for words in itertools.product(*WORDS)]
    (folder / "generated.txt").write_text("\n".join(sentences[::3]))
    (folder / "tiny.toml").write_text(tomli_w.dumps(TINY))
    study = {
        "base": "tiny.toml",
        "question": "Is one better than other?",
        "seeds": [0, 1, 2],
        "variants": {"other": {}, "one": {"train.lr": 0.02}},
    }
    (folder / "study.toml").write_text(tomli_w.dumps(study))
    trainings = DrawnTrainings()
    trainings.better_by["one"] = 30.0
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        patch.setattr(choice, "LocalEngine", lambda **_: trainings)
        compare.compare("study.toml")
    home = folder / "runs" / "study"
    for run in home.glob("*/seed-*"):
        (run / "final").mkdir()
        (run / "events.jsonl").write_text("\n".join(event_lines(200)) + "\n")
    return home
