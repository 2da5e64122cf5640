"""A classifier that collapses to one class is flagged in training; studies do not rank it."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
import tomli_w
from tests.journeys.test_compare import in_process_trainings
from tests.journeys.workspace import Workspace

__all__ = ["in_process_trainings"]

RECIPE = {
    "name": "opinions",
    "data": {"corpus": "opinions.csv", "dev": 0.2, "test": 0.2},
    "tokenizer": {"kind": "word"},
    "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 16, "context": 8},
    "task": {"kind": "classification"},
    "train": {
        "max_steps": 30,
        "batch_tokens": 256,
        "lr": 1e-2,
        "evaluate_every": 10,
        "checkpoint_every": 0,
        "threads": 1,
    },
}
THINGS = ("film", "book", "song", "play", "meal", "walk", "game")


def write_rows(workspace: Workspace) -> None:
    """Generated rows: three in five are good, and one word decides."""
    rows = ["text,label"]
    for number in range(300):
        positive = number % 5 < 3
        thing = THINGS[number % 7]
        noise = sha256(str(number).encode()).hexdigest()[24:48]  # so that no row is near another
        rows.append(f"{noise} the {thing} was {'fine' if positive else 'dull'},{int(positive)}")
    workspace.write("opinions.csv", "\n".join(rows) + "\n")
    workspace.write("opinions.toml", tomli_w.dumps(RECIPE))


def remarks(run: Path) -> list[str]:
    events = map(json.loads, (run / "events.jsonl").read_text().splitlines())
    return [event["text"] for event in events if event["event"] == "remark"]


@pytest.mark.usefixtures("in_process_trainings")
def test_collapsed_variant_is_reported_first_and_not_ranked(
    workspace: Workspace,
) -> None:
    write_rows(workspace)
    study = {
        "base": "opinions.toml",
        "seeds": [0, 1],
        "decides": "dev.accuracy",
        "variants": {"slow": {}, "slower": {"train.lr": 5e-3}, "wild": {"train.lr": 3.0}},
    }
    workspace.write("study.toml", tomli_w.dumps(study))
    printed = workspace.run("compare", "study.toml")
    assert re.match("COLLAPSED +wild predicts one class", printed.strip())
    assert printed.index("COLLAPSED") < printed.index("VERDICT")
    runs = workspace.folder / "runs" / "study"
    outcome = json.loads((runs / "outcome.json").read_text())
    verdicts = {
        verdict["variant"]: verdict
        for verdict in outcome["verdicts"]
        if verdict["score_key"] == "dev.accuracy"
    }
    assert verdicts["wild"]["sentence"] == "not compared"
    assert verdicts["wild"]["notes"] == ["wild predicts one class for every row with 2 of 2 seeds"]
    assert verdicts["slower"]["sentence"] != "not compared"
    page = (runs / "report.html").read_text()
    assert page.index("COLLAPSED") < page.index("<header>")
    [first, *_] = remarks(runs / "wild" / "seed-0")
    assert ": dev: all " in first
    assert "the majority class" in first or "one class" in first
    advice = first.partition("Try: ")[2]
    assert "lower train.lr (now 3)" in advice
    assert "higher train.warmup_ratio (now 0.05)" in advice
    assert "train.epochs" in advice
    assert not json.loads((runs / "slow" / "seed-0" / "results.json").read_text())["health"][
        "predictions"
    ]["collapsed"]


def test_errors_show_labels_as_they_are(workspace: Workspace) -> None:
    write_rows(workspace)
    file = workspace.folder / "opinions.csv"
    rows = file.read_text().replace(",1\n", ",[/b]\n").replace(",0\n", ",[red]\n")
    file.write_text(rows)
    trained = workspace.run("train", "opinions.toml")
    assert trained.index("accuracy") > 0
    shown = workspace.run("errors", "runs/opinions")
    assert "[/b]" in shown
    assert "[red]" in shown
    same = workspace.run("errors", "runs/opinions", "runs/opinions")
    assert "where they differ" not in same
