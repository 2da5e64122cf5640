"""A training that answers one class is told so while it goes on, and a study does not rank it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomli_w
from tests.journeys.test_compare import here
from tests.journeys.workspace import Workspace

__all__ = ["here"]

RECIPE = {
    "name": "opinions",
    "data": {"corpus": "opinions.csv", "dev": 0.2, "test": 0.2},
    "tokenizer": {"kind": "word"},
    "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 16, "context": 8},
    "task": {"kind": "classification"},
    "train": {
        "max_steps": 60,
        "batch_tokens": 256,
        "lr": 1e-2,
        "evaluate_every": 10,
        "checkpoint_every": 0,
        "threads": 1,
    },
}
THINGS = ("film", "book", "song", "play", "meal", "walk", "game")


def write_rows(workspace: Workspace) -> None:
    """Three in five are good, and the word says so (generated)."""
    rows = ["text,label"]
    for number in range(300):
        good = number % 5 < 3
        thing = THINGS[number % 7]
        rows.append(f"{number} the {thing} was {'fine' if good else 'dull'},{int(good)}")
    workspace.write("opinions.csv", "\n".join(rows) + "\n")
    workspace.write("opinions.toml", tomli_w.dumps(RECIPE))


def remarks(run: Path) -> list[str]:
    events = map(json.loads, (run / "events.jsonl").read_text().splitlines())
    return [event["text"] for event in events if event["event"] == "remark"]


@pytest.mark.usefixtures("here")
def test_a_variant_that_answers_one_class_is_named_first_and_not_ranked(
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
    told = workspace.run("compare", "study.toml")
    assert told.strip().startswith("COLLAPSED  wild answers one class for every row with")
    assert told.index("COLLAPSED") < told.index("VERDICT")
    runs = workspace.folder / "runs" / "study"
    found = json.loads((runs / "outcome.json").read_text())
    verdicts = {one["variant"]: one for one in found["verdicts"] if one["score_key"] == "dev.accuracy"}
    assert verdicts["wild"]["words"] == "not compared"
    assert verdicts["wild"]["notes"] == ["wild answers one class for every row"]
    assert verdicts["slower"]["words"] != "not compared"
    page = (runs / "report.html").read_text()
    assert page.index("COLLAPSED") < page.index("<header>")
    [first, *_] = remarks(runs / "wild" / "seed-0")
    assert ": dev: all " in first
    assert "the majority class" in first or "one class" in first
    assert first.endswith(
        "Try: a lower train.lr (now 3), a higher train.warmup_ratio (now 0.05), more train.epochs"
    )
    assert not json.loads((runs / "slow" / "seed-0" / "results.json").read_text())["health"][
        "predictions"
    ]["collapsed"]
