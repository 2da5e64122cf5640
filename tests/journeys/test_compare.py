"""A study as a person runs it: verdicts that may be "not distinguishable", and nothing lost."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
import tomli_w
from tests.journeys.workspace import Workspace, file_digests

from regard import api
from regard.core.errors import UserError
from regard.reports import study_report
from regard.runs.recipe import Recipe

SHORT = {"train__max_steps": 12, "train__evaluate_every": 6, "train__checkpoint_every": 0}
TAKEN_OVER = {"model": None, "tokenizer": None}
"A recipe that starts from another leaves these out."


class TrainedHere:
    """Stands for the process of a training: the same work, without importing torch anew."""

    def __init__(self, command: list[str], *, stdout: IO[bytes], **_: object) -> None:
        self.returncode = 0
        recipe, folder = command[command.index("train") + 1], command[command.index("--out") + 1]
        try:
            api.train(Recipe.load(recipe), out=Path(folder), resume=True)
        except UserError as problem:
            stdout.write(f"{problem}\n".encode())
            stdout.flush()
            self.returncode = 2

    def poll(self) -> int:
        return self.returncode


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings without processes, reports without charts: one test below has both."""
    undrawn = dict.fromkeys(study_report.CHARTS, lambda *_, **__: None)
    monkeypatch.setattr(study_report, "CHARTS", undrawn)
    stand_in = SimpleNamespace(**{**vars(subprocess), "Popen": TrainedHere})
    monkeypatch.setattr("regard.studies.engines.local.subprocess", stand_in)
    monkeypatch.setattr("regard.studies.engines.local.POLL_SECONDS", 0.0)


def study(workspace: Workspace, **table: Any) -> None:
    workspace.recipe(**SHORT)
    written = {"base": "tiny.toml", "seeds": [0, 1], "question": "Which one?", **table}
    workspace.write("study.toml", tomli_w.dumps(written))


def outcome(workspace: Workspace) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((workspace.folder / "runs/study/outcome.json").read_text())
    return told


def deciding(found: dict[str, Any]) -> dict[str, Any]:
    """The verdicts on the deciding figure, by variant."""
    return {one["variant"]: one for one in found["verdicts"] if one["score_key"] == "dev.perplexity"}


@pytest.mark.usefixtures("here")
def test_equal_is_not_distinguishable_a_planted_difference_is_found_a_cheat_named_first(
    workspace: Workspace,
) -> None:
    study(
        workspace,
        seeds=[0, 1, 2],
        variants={
            "one": {},
            "other": {"samples.max_new_tokens": 7},
            "untrained": {"train.lr": 1e-9},
            "cheat": {"model.attention.kind": "zero-masked"},
        },
        probes=["the cat sees a bird."],
    )
    told = workspace.run("compare", "study.toml")
    assert told.index("INVALID") < told.index("VERDICT")
    assert "cheat sees the future: position" in told
    assert "not distinguishable" in told
    assert "one is better than untrained by" in told
    found = outcome(workspace)
    verdicts = deciding(found)
    assert verdicts["other"]["value"] == 0
    assert verdicts["other"]["better"] == ""
    assert verdicts["untrained"]["better"] == "one"
    assert verdicts["untrained"]["low"] > 0
    assert verdicts["cheat"]["words"] == "not compared"
    assert found["unequal"] == []
    assert all(len(variant["probes"]) == 1 for variant in found["variants"])
    page = (workspace.folder / "runs" / "study" / "report.html").read_text()
    assert page.index("sees the future") < page.index("is better than untrained")
    assert (workspace.folder / "runs" / "study" / "report.md").is_file()
    assert (workspace.folder / "runs" / "study" / "tables.tex").is_file()


@pytest.mark.usefixtures("here")
def test_what_is_finished_is_not_run_again_and_what_is_missing_is_said(
    workspace: Workspace,
) -> None:
    study(workspace, variants={"narrow": {}, "wide": {"model.width": 32}}, seeds=[0, 1, 2])
    workspace.run("compare", "study.toml")
    before = outcome(workspace)
    assert any("parameters where narrow has" in line for line in before["unequal"])
    runs = workspace.folder / "runs" / "study"
    untouched = [runs / variant / "seed-0" for variant in ("narrow", "wide")]
    kept = [file_digests(run) for run in untouched]
    shutil.rmtree(runs / "wide" / "seed-1")
    (runs / "narrow" / "seed-1" / "items" / "dev.jsonl").write_text("half a li")
    newer = (runs / "narrow" / "seed-2" / "results.json").read_text()
    (runs / "narrow" / "seed-2" / "results.json").write_text(
        newer.replace('"schema": 1', '"schema": 99', 1)
    )
    half = runs / "wide" / "seed-2"
    (half / "results.json").unlink()
    (half / "recipe.toml").write_text('name = "hal')
    said = workspace.run("compare", "study.toml")
    assert [file_digests(run) for run in untouched] == kept
    assert (runs / "wide" / "seed-1" / "results.json").is_file(), "the deleted one is trained anew"
    after = outcome(workspace)
    missing = dict(line.split(": ", 1) for line in after["missing"])
    assert missing.keys() == {"narrow · seed 1", "narrow · seed 2", "wide · seed 2"}
    assert "dev.jsonl is damaged" in missing["narrow · seed 1"]
    assert "schema 99 is unknown" in missing["narrow · seed 2"]
    assert "wide/seed-2/recipe.toml: not valid TOML" in missing["wide · seed 2"]
    assert "MISSING  narrow · seed 2" in said
    assert "the same command trains what is missing" in said
    assert "schema 99 is unknown" in (runs / "report.html").read_text()
    assert after["verdicts"][0]["seeds"] == 1
    assert "one seed cannot tell" in " ".join(after["verdicts"][0]["notes"])
    assert (half / "recipe.toml").read_text() == 'name = "hal'


@pytest.mark.long
def test_a_study_that_is_ended_goes_on_where_it_was(workspace: Workspace) -> None:
    workspace.recipe(train__max_steps=300, train__checkpoint_every=50, train__evaluate_every=0)
    workspace.write(
        "study.toml", tomli_w.dumps({"base": "tiny.toml", "seeds": [0], "variants": {"a": {}}})
    )
    run = workspace.folder / "runs/study/a/seed-0"
    with workspace.spawn("compare", "study.toml") as process:
        while not any((run / "checkpoints").glob("step-*")):
            assert process.poll() is None, "the study ended before its training had begun"
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "every training saved" in error
    assert not (run / "results.json").exists()
    workspace.run("compare", "study.toml")
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "resume"]
    assert outcome(workspace)["missing"] == []
    assert (workspace.folder / "runs/study/charts/loss-by-step.png").is_file()


@pytest.mark.usefixtures("here")
def test_a_learning_rate_is_tuned_for_each_variant_with_the_same_trials(
    workspace: Workspace,
) -> None:
    study(
        workspace,
        variants={"dot": {}, "hard": {"model.attention.kind": "hard"}},
        seeds=[0],
        tune={"train.lr": [1e-4, 1e-2]},
    )
    workspace.run("compare", "study.toml", "--only", "dot")
    [missing] = outcome(workspace)["missing"]
    assert missing.startswith("hard · seed 0: no tuning trial of it can be used (not asked for")
    workspace.run("compare", "study.toml", "--only", "hard")
    assert outcome(workspace)["missing"] == [], "what was trained before counts"
    for variant in outcome(workspace)["variants"]:
        assert [trial["train.lr"] for trial in variant["trials"]] == [1e-4, 1e-2]
        best = min(variant["trials"], key=lambda trial: trial["dev.perplexity"])
        assert variant["chosen"] == {"train.lr": best["train.lr"]}
        assert variant["runs"][0]["folder"].endswith(f"tune/lr={best['train.lr']}/seed-0")


@pytest.mark.long
@pytest.mark.usefixtures("here")
def test_one_pretraining_is_shared_and_said_or_each_seed_has_its_own(workspace: Workspace) -> None:
    workspace.recipe("pretrain.toml", name="pretrain", **SHORT)
    workspace.recipe("fine.toml", name="fine", start="pretrain.toml", **SHORT, **TAKEN_OVER)
    asked = {"base": "fine.toml", "variants": {"low": {"train.lr": 1e-5}}}
    workspace.write("study.toml", tomli_w.dumps({**asked, "seeds": [0, 1]}))
    workspace.run("compare", "study.toml")
    runs = workspace.folder / "runs"
    [first] = runs.glob("pretrain-*")
    assert any(
        f"low starts from runs/{first.name}, the same for" in line for line in said(workspace)
    )
    assert "the same for all seeds" in (runs / "study/report.html").read_text()
    again = tomli_w.dumps({**asked, "name": "study", "seeds": [0, 1], "pretrain": "each seed"})
    workspace.write("again.toml", again)
    shutil.move(runs / "study", runs / "shared")
    kept = file_digests(first)
    workspace.run("compare", "again.toml")
    assert file_digests(first) == kept, "seed 0 is that very pretraining"
    assert len(list(runs.glob("pretrain-*"))) == 2
    assert any("each seed from a pretraining with that seed" in line for line in said(workspace))


def said(workspace: Workspace) -> list[str]:
    remarks: list[str] = outcome(workspace)["remarks"]
    return remarks


@pytest.mark.usefixtures("here")
def test_a_base_that_was_changed_is_another_study(workspace: Workspace) -> None:
    study(workspace, variants={"a": {}}, seeds=[0])
    workspace.run("compare", "study.toml")
    workspace.recipe(**SHORT, train__lr=0.5)
    refused = workspace.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert "the recipe of variant a has changed" in refused.error
    assert "train.lr: 0.5 here, 0.01 there" in refused.error


@pytest.mark.usefixtures("here")
def test_a_study_that_has_trained_nothing_yet_may_be_mended(workspace: Workspace) -> None:
    study(workspace, variants={"a": {"train.batch_tokens": 10**9}}, seeds=[0])
    refused = workspace.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert (workspace.folder / "runs/study/study.toml").is_file()
    study(workspace, variants={"a": {}}, seeds=[0])
    workspace.run("compare", "study.toml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compare", "gone.toml"), "gone.toml does not exist"),
        (("compare", "study.toml", "--seeds", "one"), "write 0,1,2 or 0-4"),
        (("compare", "study.toml", "--only", "dott"), "did you mean dot"),
        (("compare", "tiny.toml"), "base is missing"),
        (("sweep", "study.toml"), "neither [grid] nor [random]"),
    ],
)
def test_bad_input_is_one_sentence(workspace: Workspace, words: tuple[str, ...], said: str) -> None:
    study(workspace, variants={"dot": {}})
    outcome = workspace.invoke(*words)
    assert outcome.exit_code == 2
    assert said in outcome.error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'base = "tiny.toml"\n[variants.a]\n"model.atention.kind" = "dot"\n',
            "variants.a: unknown",
        ),
        ('base = "tiny.toml"\n[variants.a]\n[variants.a]\n', "two variants of one name"),
        ('base = "gone.toml"\n[variants.a]\n', "base = 'gone.toml': there is no such recipe"),
    ],
    ids=["unknown key", "the same name twice", "no base"],
)
def test_a_study_that_cannot_be_leaves_nothing(workspace: Workspace, text: str, said: str) -> None:
    workspace.recipe()
    workspace.write("study.toml", text)
    refused = workspace.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert said in refused.error
    assert not (workspace.folder / "runs").exists()


def test_another_study_in_the_same_folder_is_refused(workspace: Workspace) -> None:
    study(workspace, variants={"dot": {}})
    (workspace.folder / "runs" / "study").mkdir(parents=True)
    refused = workspace.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert "is no study" in refused.error
