"""Samples are judged against real text; repetition and collapse are flagged in the report."""

import json
import re
from typing import Any

import pytest
from tests.journeys.workspace import Workspace, generated_sentences
from tests.unsealed import unseal

BOILERPLATE = "the cat sees the dog again."


def read_results(workspace: Workspace) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((workspace.folder / "runs/tiny/results.json").read_text())
    return results


def write_results(workspace: Workspace, results: dict[str, Any]) -> None:
    """Results as another version might have written them."""
    run = workspace.folder / "runs/tiny"
    unseal(run)
    (run / "results.json").write_text(json.dumps(results | {"sealed": False}))


def read_report(workspace: Workspace) -> str:
    """The report without spans, its white space normalised."""
    html = (workspace.folder / "runs/tiny/report.html").read_text()
    html = re.sub(r"</?span[^>]*>", "", html)
    return " ".join(html.replace("\u00a0", " ").split())


def test_results_hold_sample_health_and_the_train_dev_gap(shared_workspace: Workspace) -> None:
    health = read_results(shared_workspace)["health"]
    samples = health["samples"]
    assert samples["n"] == 40
    assert samples["tokens"] >= 100
    assert 0 < samples["samples"]["distinct_2"] <= 1
    assert 0 < samples["reference"]["distinct_2"] <= 1
    assert "temperature 1" in samples["drawn"]
    train_dev_gap = health["train_dev_gap"]
    assert train_dev_gap["low"] < train_dev_gap["gap"] < train_dev_gap["high"]
    assert ("overfitting" in train_dev_gap["sentence"]) == (train_dev_gap["low"] > 0)


def test_report_shows_sample_health(trained: Workspace) -> None:
    trained.run("report", "runs/tiny")
    page = read_report(trained)
    assert "3-grams that repeat an earlier one" in page
    assert re.search("Judged on 40 texts .* 60 tokens", page)
    assert "nats a token" in page
    flagged = bool(read_results(trained)["health"]["samples"]["flags"])
    assert ("Good perplexity, bad samples" in page) == flagged


def test_boilerplate_samples_are_flagged_despite_good_perplexity(
    workspace: Workspace,
) -> None:
    sentences = generated_sentences(700)
    workspace.write("train.txt", "\n".join(sentences[:400] + [BOILERPLATE] * 400))
    workspace.write("dev.txt", "\n".join(sentences[400:550]))
    workspace.write("test.txt", "\n".join(sentences[550:]))
    files = {"corpus": "train.txt", "dev": "dev.txt", "test": "test.txt"}
    workspace.recipe(data=files, train__max_steps=80, train__evaluate_every=0)

    printed = workspace.run("train", "tiny.toml")
    assert "samples resemble each other: " in printed
    results = read_results(workspace)
    [flag] = [f for f in results["health"]["samples"]["flags"] if "resemble" in f]
    assert "(n = 40 samples)" in flag
    unigram = [row for row in results["comparisons"] if row["against"] == "unigram"]
    assert {row["verdict"] for row in unigram} == {"better than"}
    page = read_report(workspace)
    assert '<p class="notice"><strong>Good perplexity, bad samples.</strong>' in page
    assert re.search("<strong>Flagged:</strong>[^<]* samples resemble each other: ", page)


def test_flagged_samples_of_a_model_behind_its_baselines_give_no_warning(
    trained: Workspace,
) -> None:
    results = read_results(trained)
    results["health"]["samples"]["flags"] = ["samples repeat themselves: <b>all</b>"]
    for row in results["comparisons"]:
        row["verdict"] = "behind"
    write_results(trained, results)
    trained.run("report", "runs/tiny")
    page = read_report(trained)
    assert "Good perplexity, bad samples" not in page
    assert "<strong>Flagged:</strong> samples repeat themselves: &lt;b&gt;all&lt;/b&gt;" in page


def test_results_without_health_are_still_reported(trained: Workspace) -> None:
    results = read_results(trained)
    del results["health"]
    write_results(trained, results)
    trained.run("report", "runs/tiny")
    assert "Judged on" not in read_report(trained)


def test_report_says_that_an_encoder_cannot_generate(workspace: Workspace) -> None:
    workspace.recipe(model__family="encoder", train__max_steps=5, train__evaluate_every=0)
    workspace.run("train", "tiny.toml")
    assert read_results(workspace)["health"]["samples"]["flags"] == []
    assert re.search("predicts masked tokens .* cannot generate", read_report(workspace))


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
def test_seq2seq_samples_continue_halves_of_dev_texts(workspace: Workspace, family: str) -> None:
    workspace.recipe(
        model={"family": family, "layers": 1, "width": 24, "context": 16},
        train__max_steps=5,
        train__evaluate_every=0,
    )
    workspace.run("train", "tiny.toml")
    samples = read_results(workspace)["health"]["samples"]
    assert "after halves of dev texts" in samples["drawn"]
    assert samples["unjudged"] or samples["samples"]["distinct_1"] > 0


def test_health_is_the_same_when_recomputed_from_the_last_checkpoint(trained: Workspace) -> None:
    before = read_results(trained)["health"]
    (trained.folder / "runs/tiny/results.json").unlink()
    trained.run("train", "runs/tiny", "--resume")
    assert read_results(trained)["health"] == before


def test_few_long_documents_are_judged_in_chunks(workspace: Workspace) -> None:
    sentences = generated_sentences(1200)
    for split, start in (("train", 0), ("dev", 400), ("test", 800)):
        workspace.write(f"{split}.txt", " ".join(sentences[start : start + 400]))
    files = {"corpus": "train.txt", "dev": "dev.txt", "test": "test.txt"}
    workspace.recipe(data=files, train__max_steps=5, train__evaluate_every=0)
    workspace.run("train", "tiny.toml")
    health = read_results(workspace)["health"]
    assert health["samples"]["documents"] >= 40, "chunks of one document"
    assert health["train_dev_gap"]["fit"] == "too few documents"
