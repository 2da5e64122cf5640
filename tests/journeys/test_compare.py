"""A study as a person runs it: verdicts that may be "not distinguishable", and nothing lost."""

import json
import shutil

import pytest
import tomli_w
from tests.journeys.desk import Desk

SHORT = {"train__max_steps": 12, "train__evaluate_every": 6, "train__checkpoint_every": 0}


def study(desk: Desk, **table) -> None:
    desk.recipe(**SHORT)
    written = {"base": "tiny.toml", "seeds": [0, 1], "question": "Which one?", **table}
    desk.write("study.toml", tomli_w.dumps(written))


def outcome(desk: Desk) -> dict:
    return json.loads((desk.folder / "runs" / "study" / "outcome.json").read_text())


def test_the_same_twice_is_not_distinguishable_and_a_cheat_is_named_first(desk: Desk) -> None:
    study(
        desk,
        variants={
            "one": {},
            "other": {"samples.max_new": 7},
            "cheat": {"model.attention.kind": "zero-masked"},
        },
        probes=["the cat sees a bird."],
    )
    told = desk.done("compare", "study.toml")
    assert told.index("INVALID") < told.index("VERDICT")
    assert "cheat sees the future: position" in told
    assert "not distinguishable" in told
    found = outcome(desk)
    verdicts = {
        one["variant"]: one for one in found["verdicts"] if one["figure"] == "dev.perplexity"
    }
    assert verdicts["other"]["value"] == 0
    assert verdicts["other"]["better"] == ""
    assert verdicts["cheat"]["words"] == "not compared"
    assert found["unequal"] == []
    assert all(len(variant["probes"]) == 1 for variant in found["variants"])
    page = (desk.folder / "runs" / "study" / "report.html").read_text()
    assert page.index("sees the future") < page.index("not distinguishable")
    assert (desk.folder / "runs" / "study" / "report.md").is_file()
    assert (desk.folder / "runs" / "study" / "tables.tex").is_file()


def test_what_is_finished_is_not_run_again_and_what_is_missing_is_said(desk: Desk) -> None:
    study(desk, variants={"narrow": {}, "wide": {"model.width": 32}})
    desk.done("compare", "study.toml")
    before = outcome(desk)
    assert any("parameters where narrow has" in line for line in before["unequal"])
    runs = desk.folder / "runs" / "study"
    stamps = {path: path.stat().st_mtime_ns for path in runs.glob("*/seed-*/figures.json")}
    assert len(stamps) == 4
    shutil.rmtree(runs / "wide" / "seed-1")
    (runs / "narrow" / "seed-1" / "items" / "dev.jsonl").write_text("half a li")
    desk.done("compare", "study.toml")
    for path, stamp in stamps.items():
        assert (path.stat().st_mtime_ns == stamp) == ("wide/seed-1" not in str(path))
    after = outcome(desk)
    [missing] = after["missing"]
    assert missing.startswith("narrow · seed 1: ")
    assert "dev.jsonl is damaged" in missing
    assert after["verdicts"][0]["seeds"] == 1
    assert "one seed cannot tell" in " ".join(after["verdicts"][0]["notes"])


def test_a_learning_rate_is_tuned_for_each_variant_with_the_same_trials(desk: Desk) -> None:
    study(
        desk,
        variants={"dot": {}, "hard": {"model.attention.kind": "hard"}},
        seeds=[0],
        tune={"train.lr": [1e-4, 1e-2]},
    )
    desk.done("compare", "study.toml", "--only", "dot", "--only", "hard")
    for variant in outcome(desk)["variants"]:
        assert [trial["train.lr"] for trial in variant["trials"]] == [1e-4, 1e-2]
        best = min(variant["trials"], key=lambda trial: trial["dev.perplexity"])
        assert variant["chosen"] == {"train.lr": best["train.lr"]}
        assert variant["runs"][0]["folder"].endswith(f"tune/lr={best['train.lr']}/seed-0")


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
def test_bad_input_is_one_sentence(desk: Desk, words: tuple[str, ...], said: str) -> None:
    study(desk, variants={"dot": {}})
    outcome = desk.regard(*words)
    assert outcome.code == 2
    assert said in outcome.complaint


def test_another_study_in_the_same_folder_is_refused(desk: Desk) -> None:
    study(desk, variants={"dot": {}})
    (desk.folder / "runs" / "study").mkdir(parents=True)
    refused = desk.regard("compare", "study.toml")
    assert refused.code == 2
    assert "is no study" in refused.complaint
