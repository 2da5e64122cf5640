"""`regard compare` of a study that plans its looks: stops, says so, and is not talked into more."""

from __future__ import annotations

import json

import pytest
import tomli_w
from tests.journeys.workspace import Workspace, file_digests
from tests.studies.drawn_trainings import DrawnTrainings

from regard.reports import study_report
from regard.studies.engines import choice


def test_a_study_stops_at_the_look_that_decides_and_stays_there(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = DrawnTrainings()
    trainings.better_by["one"] = 30.0
    monkeypatch.setattr(choice, "LocalEngine", lambda **_: trainings)
    no_charts = dict.fromkeys(study_report.CHARTS, lambda *_, **__: None)
    monkeypatch.setattr(study_report, "CHARTS", no_charts)
    workspace.recipe()
    study = {
        "base": "tiny.toml",
        "seeds": {"plan": [3, 5, 8]},
        "variants": {"other": {}, "one": {}},
    }
    workspace.write("study.toml", tomli_w.dumps(study))
    printed = workspace.run("compare", "study.toml")
    words = " ".join(printed.split())
    assert "2 variants × 3 of 8 planned seeds" in words
    assert "better than other by" in words
    assert "decided at look 1 of 3" in words
    assert "too large on average" in words
    assert "stopped at look 1: every comparison is decided" in words
    home = workspace.folder / "runs" / "study"
    plan = json.loads((home / "plan.json").read_text())["looks"]
    assert plan["seeds"] == [3, 5, 8]
    assert plan["thresholds"] == pytest.approx([6.92, 3.77, 3.00], abs=0.05)
    outcome = json.loads((home / "outcome.json").read_text())
    assert (outcome["plan"]["taken"], len(outcome["looks"])) == (1, 1)
    page = (home / "report.html").read_text()
    assert "Planned looks" in page
    assert page.count("not taken") == 2
    assert "## Planned looks" in (home / "report.md").read_text()

    models = [home / name / "seed-0" for name in ("one", "other")]
    before = [file_digests(model) for model in models]
    assert workspace.run("compare", "study.toml") == printed
    assert [file_digests(model) for model in models] == before
    assert not (home / "one" / "seed-3").exists()
    workspace.run("report", "runs/study", "--out", "again.html")
    assert "Planned looks" in (workspace.folder / "again.html").read_text()

    for arguments in (("--seeds", "0-7"), ("--seeds", "0,1,2")):
        refused = workspace.invoke("compare", "study.toml", *arguments)
        assert refused.exit_code == 2
        assert "plans its looks at [3, 5, 8] seeds" in refused.error
    study["seeds"] = {"plan": [3, 5, 9]}
    workspace.write("study.toml", tomli_w.dumps(study))
    refused = workspace.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert "were planned as [3, 5, 8]" in refused.error
