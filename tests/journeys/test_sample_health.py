"""What a model writes is judged beside real text, and a person is told where it has collapsed."""

import json
import re
from typing import Any

import pytest
from tests.journeys.workspace import Workspace, generated_sentences

NO_CHARTS = "regard.reports.run_report.draw_inline_charts"
BOILERPLATE = "the cat sees the dog again."


@pytest.fixture(autouse=True)
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a report, and these tests read words."""
    monkeypatch.setattr(NO_CHARTS, lambda draw, record: [])


def figures_of(workspace: Workspace, run: str = "tiny") -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(
        (workspace.folder / "runs" / run / "results.json").read_text()
    )
    return figures


def page_of(workspace: Workspace) -> str:
    written = (workspace.folder / "runs/tiny/report.html").read_text()
    unspanned = re.sub(r"</?span[^>]*>", "", written)
    return " ".join(unspanned.replace("\u00a0", " ").split())


def test_every_run_tells_the_health_of_its_samples(shared_workspace: Workspace) -> None:
    health = figures_of(shared_workspace)["health"]
    samples = health["samples"]
    assert samples["n"] == 40
    assert samples["tokens"] >= 100
    assert 0 < samples["samples"]["distinct_2"] <= 1
    assert 0 < samples["reference"]["distinct_2"] <= 1
    assert "temperature 1" in samples["drawn"]
    train_and_dev = health["train_and_dev"]
    assert train_and_dev["low"] < train_and_dev["gap"] < train_and_dev["high"]
    assert ("overfitting" in train_and_dev["sentence"]) == (train_and_dev["low"] > 0)


def test_the_report_tells_it(trained: Workspace) -> None:
    trained.run("report", "runs/tiny")
    page = page_of(trained)
    assert "3-grams that repeat an earlier one" in page
    assert "Judged on 40 texts of at most 60 tokens" in page
    assert "nats a token" in page
    flagged = bool(figures_of(trained)["health"]["samples"]["flags"])
    assert ("Good perplexity, bad samples" in page) == flagged


def test_a_model_drowned_in_boilerplate_is_flagged_though_its_perplexity_is_good(
    workspace: Workspace,
) -> None:
    sentences = generated_sentences(700)
    workspace.write("train.txt", "\n".join(sentences[:400] + [BOILERPLATE] * 400))
    workspace.write("dev.txt", "\n".join(sentences[400:550]))
    workspace.write("test.txt", "\n".join(sentences[550:]))
    files = {"corpus": "train.txt", "dev": "dev.txt", "test": "test.txt"}
    workspace.recipe(data=files, train__max_steps=80, train__evaluate_every=0)

    told = workspace.run("train", "tiny.toml")
    assert "samples resemble each other: " in told
    figures = figures_of(workspace)
    [flag] = [f for f in figures["health"]["samples"]["flags"] if "resemble" in f]
    assert "(n = 40 samples)" in flag
    unigram = [row for row in figures["comparisons"] if row["against"] == "unigram"]
    assert {row["verdict"] for row in unigram} == {"better than"}
    page = page_of(workspace)
    assert '<p class="notice"><strong>Good perplexity, bad samples.</strong>' in page
    assert re.search("<strong>Flagged:</strong>[^<]* samples resemble each other: ", page)


def test_what_is_flagged_but_no_better_than_counting_needs_no_warning(trained: Workspace) -> None:
    figures = figures_of(trained)
    figures["health"]["samples"]["flags"] = ["samples repeat themselves: <b>all</b>"]
    for row in figures["comparisons"]:
        row["verdict"] = "behind"
    (trained.folder / "runs/tiny/results.json").write_text(json.dumps(figures))
    trained.run("report", "runs/tiny")
    page = page_of(trained)
    assert "Good perplexity, bad samples" not in page
    assert "<strong>Flagged:</strong> samples repeat themselves: &lt;b&gt;all&lt;/b&gt;" in page


def test_a_run_from_before_there_was_health_is_still_reported(trained: Workspace) -> None:
    figures = figures_of(trained)
    del figures["health"]
    (trained.folder / "runs/tiny/results.json").write_text(json.dumps(figures))
    trained.run("report", "runs/tiny")
    assert "Judged on" not in page_of(trained)


def test_an_encoder_writes_nothing_and_that_is_said(workspace: Workspace) -> None:
    workspace.recipe(model__family="encoder", train__max_steps=5, train__evaluate_every=0)
    workspace.run("train", "tiny.toml")
    assert figures_of(workspace)["health"]["samples"]["flags"] == []
    assert "The model tells hidden tokens and cannot write" in page_of(workspace)


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
def test_a_model_with_a_source_goes_on_from_halves_of_dev_texts(
    workspace: Workspace, family: str
) -> None:
    workspace.recipe(
        model={"family": family, "width": 24, "context": 16},
        train__max_steps=5,
        train__evaluate_every=0,
    )
    workspace.run("train", "tiny.toml")
    samples = figures_of(workspace)["health"]["samples"]
    assert "after halves of dev texts" in samples["drawn"]
    assert samples["unjudged"] or samples["samples"]["distinct_1"] > 0


def test_judging_again_from_the_last_checkpoint_says_the_same(trained: Workspace) -> None:
    before = figures_of(trained)["health"]
    (trained.folder / "runs/tiny/results.json").unlink()
    trained.run("train", "runs/tiny", "--resume")
    assert figures_of(trained)["health"] == before


def test_few_long_documents_are_judged_piece_by_piece(workspace: Workspace) -> None:
    for part, begin in (("train", 0), ("dev", 400), ("test", 800)):
        workspace.write(f"{part}.txt", " ".join(generated_sentences(1200)[begin : begin + 400]))
    files = {"corpus": "train.txt", "dev": "dev.txt", "test": "test.txt"}
    workspace.recipe(data=files, train__max_steps=5, train__evaluate_every=0)
    workspace.run("train", "tiny.toml")
    health = figures_of(workspace)["health"]
    assert health["samples"]["documents"] >= 40, "pieces of one document"
    assert health["train_and_dev"]["fit"] == "too few documents"
