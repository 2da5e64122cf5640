"""A study of two variants with two seeds that trains in a second, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import tomli_w
from tests.in_process_trainings import InProcessWorker
from tests.journeys.workspace import Workspace
from tests.torture.commands import one_thread, without_charts, workspace_at

from regard.reports import study_report

STUDY = "runs/study"
COMPARE = ("compare", "study.toml")


@contextmanager
def in_this_process() -> Iterator[None]:
    """Studies train here instead of in processes of their own, and draw no charts."""
    engine = "regard.studies.engines.local"
    no_charts = {name: lambda *_, **__: None for name in study_report.CHARTS}
    with ExitStack() as stack:
        stack.enter_context(mock.patch(f"{engine}.WorkerProcess", InProcessWorker))
        stack.enter_context(mock.patch(f"{engine}.POLL_SECONDS", 0.0))
        stack.enter_context(mock.patch.object(study_report, "CHARTS", no_charts))
        stack.enter_context(without_charts())
        yield


def judge_small_study(home: Path) -> Workspace:
    workspace = workspace_at(home / "work")
    one_thread()
    if (workspace.folder / STUDY).is_dir():  # an earlier session's, with --home
        return workspace
    workspace.recipe(train__max_steps=6, train__evaluate_every=3, train__checkpoint_every=0)
    variants = {"one": {}, "slow": {"train.lr": 1e-5}}
    study = {"base": "tiny.toml", "seeds": [0, 1], "question": "Which?", "variants": variants}
    workspace.write("study.toml", tomli_w.dumps(study))
    with in_this_process():
        workspace.run(*COMPARE)
    return workspace
