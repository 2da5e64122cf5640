"""The fixture `in_process_trainings`: a study trains in the test's process, and draws no charts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from regard import api
from regard.core.errors import UserError
from regard.reports import study_report
from regard.runs.recipe import Recipe


class InProcessTraining:
    """Replaces Popen: trains in this process, which saves importing torch."""

    def __init__(self, command: list[str], *, stdout: IO[bytes], **_: object) -> None:
        self.returncode = 0
        recipe, folder = command[command.index("train") + 1], command[command.index("--out") + 1]
        try:
            api.train(Recipe.load(recipe), out=Path(folder), resume=True)
        except UserError as error:
            stdout.write(f"{error}\n".encode())
            stdout.flush()
            self.returncode = 2

    def poll(self) -> int:
        return self.returncode


@pytest.fixture
def in_process_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    no_charts = dict.fromkeys(study_report.CHARTS, lambda *_, **__: None)
    monkeypatch.setattr(study_report, "CHARTS", no_charts)
    fake_subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": InProcessTraining})
    monkeypatch.setattr("regard.studies.engines.local.subprocess", fake_subprocess)
    monkeypatch.setattr("regard.studies.engines.local.POLL_SECONDS", 0.0)
