"""The fixture `in_process_trainings`: a study trains in the test's process, and draws no charts."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard import api
from regard.core.errors import UserError
from regard.reports import study_report
from regard.runs.recipe import Recipe


class InProcessWorker:
    """Replaces a worker process: trains in this process, which saves importing torch."""

    is_alive = True

    def __init__(self, log: Path, **_: object) -> None:
        self.log = log
        self.is_free = True

    def train(self, folder: Path, *, recipe: Path, log: Path, **_: object) -> None:
        self.is_free, self.exit_code = False, 0
        try:
            api.train(Recipe.load(recipe), out=folder, resume=True)
        except UserError as error:
            log.write_text(f"{error}\n", encoding="utf-8")
            self.exit_code = 2

    def poll(self) -> int:
        self.is_free = True
        return self.exit_code

    def close(self) -> None:
        """There is no process."""

    request_stop = wait = close


@pytest.fixture
def in_process_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    no_charts = dict.fromkeys(study_report.CHARTS, lambda *_, **__: None)
    monkeypatch.setattr(study_report, "CHARTS", no_charts)
    monkeypatch.setattr("regard.studies.engines.local.WorkerProcess", InProcessWorker)
    monkeypatch.setattr("regard.studies.engines.local.POLL_SECONDS", 0.0)
