"""`regard compare`: verdicts that may be "not distinguishable", resuming, missing runs, errors."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from collections.abc import Sequence
from typing import Any

import pytest
import tomli_w
from tests.in_process_trainings import in_process_trainings as in_process_trainings
from tests.journeys.workspace import Workspace, file_digests
from tests.unsealed import unseal

from regard.runs.locking.lock import is_locked

SHORT = {"train__max_steps": 12, "train__evaluate_every": 6, "train__checkpoint_every": 0}
INHERITED = {"model": None, "tokenizer": None}
"Left out of a recipe with an initial model."


def write_study(workspace: Workspace, **table: Any) -> None:
    workspace.recipe(**SHORT)
    study = {"base": "tiny.toml", "seeds": [0, 1], "question": "Which one?", **table}
    workspace.write("study.toml", tomli_w.dumps(study))


def read_outcome(workspace: Workspace) -> dict[str, Any]:
    text = (workspace.folder / "runs/study/outcome.json").read_text()
    outcome: dict[str, Any] = json.loads(text)
    return outcome


def deciding_verdicts(outcome: dict[str, Any]) -> dict[str, Any]:
    """The verdicts on the deciding score, by variant."""
    return {
        verdict["variant"]: verdict
        for verdict in outcome["verdicts"]
        if verdict["score_key"] == "dev.perplexity"
    }


@pytest.mark.usefixtures("in_process_trainings")
def test_verdicts_on_an_equal_a_worse_and_a_leaking_variant(
    workspace: Workspace,
) -> None:
    write_study(
        workspace,
        seeds=[0, 1, 2],
        variants={
            "one": {},
            "other": {"samples.max_new_tokens": 7},
            "untrained": {"train.lr": 1e-9},
            "cheat": {"model.attention.kind": "zero-masked"},
            "wild": {"train.lr": 1e30},
        },
        probes=["the cat sees a bird."],
    )
    printed = workspace.run("compare", "study.toml")
    assert printed.index("INVALID") < printed.index("VERDICT")
    assert "cheat sees the future: position" in printed
    assert "not distinguishable" in printed
    assert "one is better than untrained by" in printed
    outcome = read_outcome(workspace)
    verdicts = deciding_verdicts(outcome)
    assert verdicts["other"]["value"] == 0
    assert verdicts["other"]["better"] == ""
    assert verdicts["untrained"]["better"] == "one"
    assert verdicts["untrained"]["low"] > 0
    assert verdicts["cheat"]["sentence"] == "not compared"
    assert outcome["unequal"] == []
    assert printed.index("DIVERGED  wild diverged in 3 of 3 seeds") < printed.index("VERDICT")
    assert [one["diverged"] for one in outcome["divergences"]] == [{"diverged": 3, "seeds": 3}]
    assert verdicts["wild"]["sentence"] == "not compared"
    finished = [variant for variant in outcome["variants"] if not variant["diverged"]]
    assert [len(variant["probes"]) for variant in finished] == [1, 1, 1, 1]
    page = (workspace.folder / "runs" / "study" / "report.html").read_text()
    assert page.index("wild diverged in 3 of 3 seeds") < page.index("is better than untrained")
    assert page.index("sees the future") < page.index("is better than untrained")
    assert (workspace.folder / "runs" / "study" / "report.md").is_file()
    assert (workspace.folder / "runs" / "study" / "tables.tex").is_file()
    check_judge_agrees(workspace, ("one", "other", "untrained"), verdicts)


def check_judge_agrees(
    workspace: Workspace, variants: Sequence[str], verdicts: dict[str, Any]
) -> None:
    """`regard judge` says the same of the items alone."""
    files = [
        f"{variant}=runs/study/{variant}/seed-{seed}/items/dev.jsonl"
        for variant in variants
        for seed in range(3)
    ]
    judged = json.loads(workspace.run("judge", *files, "--metric", "perplexity", "--json"))
    for verdict in judged["verdicts"]:
        expected = verdicts[verdict["variant"]]
        for key in ("sentence", "better", "n", "seeds"):
            assert verdict[key] == expected[key]
        for key in ("value", "low", "high", "per_seed"):
            assert verdict[key] == pytest.approx(expected[key])


@pytest.mark.usefixtures("in_process_trainings")
def test_finished_runs_are_kept_and_missing_runs_reported(
    workspace: Workspace,
) -> None:
    write_study(workspace, variants={"narrow": {}, "wide": {"model.width": 32}}, seeds=[0, 1, 2])
    workspace.recipe(**SHORT, model__family="encoder")  # its audit is short
    workspace.run("compare", "study.toml")
    before = read_outcome(workspace)
    assert any("parameters where narrow has" in line for line in before["unequal"])
    runs = workspace.folder / "runs" / "study"
    untouched = [runs / variant / "seed-0" for variant in ("narrow", "wide")]
    digests = [file_digests(run) for run in untouched]
    shutil.rmtree(runs / "wide" / "seed-1")
    (runs / "narrow" / "seed-1" / "items" / "dev.jsonl").write_text("half a li")
    for run in (runs / "narrow" / "seed-2", runs / "wide" / "seed-2"):
        unseal(run)  # as of another version
    newer = (runs / "narrow" / "seed-2" / "results.json").read_text()
    (runs / "narrow" / "seed-2" / "results.json").write_text(
        newer.replace('"schema": 3', '"schema": 99', 1)
    )
    damaged = runs / "wide" / "seed-2"
    (damaged / "results.json").unlink()
    (damaged / "recipe.toml").write_text('name = "hal')
    result = workspace.invoke("compare", "study.toml")
    assert result.exit_code == 3
    printed = result.stdout
    assert ["INCOMPLETE", "3"] in [line.split()[:2] for line in printed.splitlines()]
    assert [file_digests(run) for run in untouched] == digests
    assert (runs / "wide" / "seed-1" / "results.json").is_file(), "trained again"
    after = read_outcome(workspace)
    missing = dict(line.split(": ", 1) for line in after["missing"])
    assert missing.keys() == {"narrow · seed 1", "narrow · seed 2", "wide · seed 2"}
    # By its date: on a busy machine it is written long after it was sealed.
    assert re.search(r"dev\.jsonl: (is damaged|was edited)", missing["narrow · seed 1"])
    assert "schema 99 is unknown" in missing["narrow · seed 2"]
    assert "wide/seed-2/recipe.toml: not valid TOML" in missing["wide · seed 2"]
    assert "MISSING  narrow · seed 2" in printed
    assert "the same command trains missing runs" in printed
    assert "schema 99 is unknown" in (runs / "report.html").read_text()
    assert after["verdicts"][0]["seeds"] == 1
    assert "one seed does not show" in " ".join(after["verdicts"][0]["notes"])
    looked_at = [look["verdicts"][0]["seeds"] for look in after["looks"]]
    assert looked_at == [[0, 1, 2], [0]], "what was judged before is kept"
    assert "judged before at 3 seeds" in printed
    assert (damaged / "recipe.toml").read_text() == 'name = "hal'


@pytest.mark.long
def test_interrupted_study_resumes_its_trainings(workspace: Workspace) -> None:
    workspace.recipe(train__max_steps=300, train__checkpoint_every=50, train__evaluate_every=0)
    workspace.write(
        "study.toml", tomli_w.dumps({"base": "tiny.toml", "seeds": [0], "variants": {"a": {}}})
    )
    run = workspace.folder / "runs/study/a/seed-0"
    with workspace.spawn("compare", "study.toml") as process:
        while not any((run / "checkpoints").glob("step-*")):
            assert process.poll() is None, "the study ended before its training began"
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM
    assert "every training is saved" in error
    assert not (run / "results.json").exists()
    workspace.run("compare", "study.toml")
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "resume"]
    assert read_outcome(workspace)["missing"] == []
    assert (workspace.folder / "runs/study/charts/loss-by-step.png").is_file()


@pytest.mark.long
def test_training_of_a_killed_study_is_finished_and_its_worker_ends(workspace: Workspace) -> None:
    workspace.recipe(train__max_steps=200, train__checkpoint_every=0, train__evaluate_every=0)
    study = {"base": "tiny.toml", "seeds": [0, 1], "variants": {"a": {}}}
    workspace.write("study.toml", tomli_w.dumps(study))
    home = workspace.folder / "runs/study"
    with workspace.spawn("compare", "study.toml", "--jobs", "1") as process:
        while not (home / "a/seed-0/events.jsonl").exists():
            assert process.poll() is None, "the study ended before its training began"
            time.sleep(0.05)
        process.kill()
    deadline = time.monotonic() + 300
    while not (home / "a/seed-0/results.json").exists() or is_locked(home / "a/seed-0"):
        assert time.monotonic() < deadline, "its training was not finished"
        time.sleep(0.05)
    finished = file_digests(home / "a/seed-0")
    workspace.run("compare", "study.toml")
    assert read_outcome(workspace)["missing"] == []
    assert read_outcome(workspace)["efficiency"]["trainings"] == 1, "only the other seed was left"
    assert file_digests(home / "a/seed-0") == finished


@pytest.mark.usefixtures("in_process_trainings")
def test_learning_rate_is_tuned_per_variant_over_the_same_trials(
    workspace: Workspace,
) -> None:
    write_study(
        workspace,
        variants={"dot": {}, "hard": {"model.attention.kind": "hard"}},
        seeds=[0],
        tune={"train.lr": [1e-4, 1e-2]},
    )
    workspace.run("compare", "study.toml", "--only", "dot")
    [missing] = read_outcome(workspace)["missing"]
    assert missing.startswith("hard · seed 0: ")
    assert "all its tuning trials failed (not selected" in missing
    workspace.run("compare", "study.toml", "--only", "hard")
    assert read_outcome(workspace)["missing"] == [], "earlier trainings count"
    for variant in read_outcome(workspace)["variants"]:
        assert [trial["values"]["train.lr"] for trial in variant["trials"]] == [1e-4, 1e-2]
        best = min(variant["trials"], key=lambda trial: trial["score"])
        assert variant["chosen"] == best["values"]
        assert variant["runs"][0]["folder"].endswith(f"tune/lr={best['values']['train.lr']}/seed-0")


@pytest.mark.long
@pytest.mark.usefixtures("in_process_trainings")
def test_pretraining_is_shared_over_seeds_or_run_per_seed(workspace: Workspace) -> None:
    workspace.recipe("pretrain.toml", name="pretrain", **SHORT)
    workspace.recipe("fine.toml", name="fine", init_from="pretrain.toml", **SHORT, **INHERITED)
    study = {"base": "fine.toml", "variants": {"low": {"train.lr": 1e-5}}, "seeds": [0, 1]}
    workspace.write("study.toml", tomli_w.dumps(study))
    workspace.run("compare", "study.toml")
    runs = workspace.folder / "runs"
    [first] = runs.glob("pretrain-*")
    assert any(
        f"low starts from runs/{first.name}, the same for" in line
        for line in study_remarks(workspace)
    )
    assert "the same for all seeds" in (runs / "study/report.html").read_text()
    per_seed = tomli_w.dumps({**study, "name": "study", "pretrain": "each seed"})
    workspace.write("per-seed.toml", per_seed)
    shutil.move(runs / "study", runs / "shared")
    digests = file_digests(first)
    workspace.run("compare", "per-seed.toml")
    assert file_digests(first) == digests, "seed 0 reuses the first pretraining"
    assert len(list(runs.glob("pretrain-*"))) == 2
    assert any(
        "each seed from a pretraining with that seed" in line for line in study_remarks(workspace)
    )


def study_remarks(workspace: Workspace) -> list[str]:
    remarks: list[str] = read_outcome(workspace)["remarks"]
    return remarks


@pytest.mark.usefixtures("in_process_trainings")
def test_changed_base_recipe_is_refused(workspace: Workspace) -> None:
    write_study(workspace, variants={"a": {}}, seeds=[0])
    workspace.run("compare", "study.toml")
    workspace.recipe(**SHORT, train__lr=0.5)
    refused = workspace.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert "the recipe of variant a has changed" in refused.error
    assert "train.lr: 0.5 here, 0.01 there" in refused.error


@pytest.mark.usefixtures("in_process_trainings")
def test_study_without_finished_trainings_may_be_edited(workspace: Workspace) -> None:
    write_study(workspace, variants={"a": {"model.width": 2**20}}, seeds=[0])
    refused = workspace.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert (workspace.folder / "runs/study/study.toml").is_file()
    write_study(workspace, variants={"a": {}}, seeds=[0])
    workspace.run("compare", "study.toml")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("compare", "gone.toml"), "gone.toml does not exist"),
        (("compare", "study.toml", "--seeds", "one"), "write 0,1,2 or 0-4"),
        (("compare", "study.toml", "--only", "dott"), "did you mean dot"),
        (("compare", "tiny.toml"), "is a recipe, not a study"),
        (("sweep", "study.toml"), "neither [grid] nor [random]"),
    ],
)
def test_invalid_input_is_one_sentence(
    workspace: Workspace, arguments: tuple[str, ...], expected: str
) -> None:
    write_study(workspace, variants={"dot": {}})
    result = workspace.invoke(*arguments)
    assert result.exit_code == 2
    assert expected in result.error


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'base = "tiny.toml"\n[variants.a]\n"model.atention.kind" = "dot"\n',
            "variants.a: unknown",
        ),
        ('base = "tiny.toml"\n[variants.a]\n[variants.a]\n', "two variants have the same name"),
        ('base = "gone.toml"\n[variants.a]\n', "base = 'gone.toml': no such recipe"),
    ],
    ids=["unknown key", "duplicate name", "no base"],
)
def test_invalid_study_writes_nothing(workspace: Workspace, text: str, expected: str) -> None:
    workspace.recipe()
    workspace.write("study.toml", text)
    refused = workspace.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert expected in refused.error
    assert not (workspace.folder / "runs").exists()


def test_another_study_in_the_same_folder_is_refused(workspace: Workspace) -> None:
    write_study(workspace, variants={"dot": {}})
    (workspace.folder / "runs" / "study").mkdir(parents=True)
    refused = workspace.invoke("compare", "study.toml")
    assert refused.exit_code == 2
    assert "is no study" in refused.error


@pytest.mark.usefixtures("in_process_trainings")
def test_planned_commands_train_what_compare_then_only_judges(workspace: Workspace) -> None:
    write_study(workspace, variants={"dot": {}, "low": {"train.lr": 1e-4}}, seeds=[0, 1])
    planned = json.loads(workspace.run("plan", "study.toml", "--json"))
    assert planned["then"].startswith("regard compare study.toml")
    assert not list((workspace.folder / "runs/study").glob("*/seed-*")), "nothing is trained"
    left = planned["trainings"]
    assert {(one["variant"], one["seed"]) for one in left} == {
        (variant, seed) for variant in ("dot", "low") for seed in (0, 1)
    }
    assert workspace.run("plan", "study.toml").splitlines() == [
        " ".join(one["command"]) for one in left
    ]
    for one in left:
        workspace.run(*one["command"][1:])
    finished = workspace.invoke("plan", "study.toml")
    assert (finished.stdout, finished.exit_code) == ("", 0)
    before = {one["folder"]: file_digests(workspace.folder / one["folder"]) for one in left}
    workspace.run("compare", "study.toml")
    assert before == {folder: file_digests(workspace.folder / folder) for folder in before}
    outcome = read_outcome(workspace)
    assert outcome["missing"] == []
    assert outcome["efficiency"] is None, "it trained nothing"
    assert deciding_verdicts(outcome)["low"]["seeds"] == 2


def test_plan_names_initial_models_and_trials_first(workspace: Workspace) -> None:
    workspace.recipe("pretrain.toml", name="pretrain", **SHORT)
    workspace.recipe("fine.toml", name="fine", init_from="pretrain.toml", **SHORT, **INHERITED)
    study = {
        "base": "fine.toml",
        "pretrain": "each seed",
        "variants": {"a": {}, "b": {}},
        "tune": {"train.lr": [1e-4, 1e-2]},
        "seeds": [0, 1],
    }
    workspace.write("study.toml", tomli_w.dumps(study))
    planned = json.loads(workspace.run("plan", "study.toml", "--json"))
    assert [one["seed"] for one in planned["trainings"]] == [0, 1]
    assert all(one["folder"].startswith("runs/pretrain-") for one in planned["trainings"])
    assert planned["then"].startswith("regard plan study.toml")
    workspace.recipe(**SHORT)
    study = {**study, "base": "tiny.toml", "pretrain": "once"}
    workspace.write("tuned.toml", tomli_w.dumps(study))
    planned = json.loads(workspace.run("plan", "tuned.toml", "--seeds", "3,4", "--json"))
    tried = [(one["variant"], one["seed"], one["trial"]) for one in planned["trainings"]]
    assert tried == [(name, 3, trial) for name in "ab" for trial in ("lr=0.0001", "lr=0.01")]
    assert planned["then"] == "regard plan tuned.toml --seeds 3,4"
