"""A study's report: what is invalid first, verdicts that are true, nothing unescaped or loaded."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from tests.reports.made_study import judged, outcome_with, spread, write_runs
from tests.synthetic_run import results_table
from typer.testing import CliRunner

from regard.cli.studies.report import report as report_command
from regard.cli.studies.verdict_table import print_outcome
from regard.reports import run_report, study_report
from regard.reports.charts import study_charts
from regard.reports.charts.theme import LIGHT
from regard.reports.evidence import read_evidence
from regard.reports.findings import verdict_sentence, study_size
from regard.reports.study_report import write_comparison_report
from regard.studies.outcome import Outcome, RunOutcome, VariantOutcome


class Page(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text, self.titles, self.struck = "", "", ""
        self.feed(html)
        self.words = " ".join(self.text.split())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "svg" in self.open and "title" in self.open:
            self.titles += f"{data}\n"
        elif "style" not in self.open and "svg" not in self.open:
            self.text += data
            self.struck += f"{data} " if "s" in self.open else ""


@pytest.fixture
def quick(monkeypatch):
    """For tests of words: drawing takes most of the time."""
    monkeypatch.setattr(study_report, "drawings", lambda draw, evidence: [])
    monkeypatch.setattr(run_report, "drawings", lambda draw, record: [])
    monkeypatch.setattr(study_report, "_write_charts", lambda *what: None)


def page_of(home: Path, outcome: Outcome, **changes: Any) -> Page:
    write_runs(home, outcome, **changes)
    return Page(write_comparison_report(home, outcome).read_text())


def test_the_whole_report(tmp_path):
    home = tmp_path / "study"
    page = page_of(home, outcome_with("dot", "additive", "zero-masked"))

    # Nothing from the data became an element, an attribute or a template; nothing is loaded.
    assert "<script" not in page.html.lower()
    assert not [name for _, attributes in page.elements for name in attributes if name[:2] == "on"]
    assert "img" not in {tag for tag, _ in page.elements}
    assert "{{ 7 * 7 }}" in page.words
    assert "\x00" not in page.html
    assert "\u202e" not in page.html
    assert not [a for _, a in page.elements for name in a if name in ("src", "href", "xlink:href")]
    assert all(target.startswith("#") for target in re.findall(r"url\(\s*['\"]?([^)]*)", page.html))
    assert any("default-src 'none'" in (a.get("content") or "") for _, a in page.elements)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))

    # The first words are that one cheats and where; its figures are struck, those of others not.
    body = page.words.split("dot-vs-additive · regard", 1)[1].strip()
    assert body.startswith("INVALID zero-masked sees the future: position 7 reacts to tokens 8, 9,")
    assert "61.00" in page.struck
    assert "118.4" not in page.struck
    assert "query '7' → key '8': 1.00" in page.titles

    # Everything that was found is there, and in this order.
    places = [
        page.words.index(words)
        for words in (
            "Perplexity per token, dev set: the figure that decides",
            "additive and dot are not distinguishable at this size",
            "zero-masked is not compared with dot: zero-masked could see",
            "Perplexity per token, test set",
            "baseline: dot and additive are behind it",
            "last training loss",
            "Differences, seed by seed",
            "Loss while they trained",
            "Probe sentences",
            "Written by additive",
            "What they attend to",
            "Guards",
            "0.19 % of the 2,087 documents",
            "3f9c77ab" * 8,
            "How the recipes differ",
            "regard compare recipes/dot-vs-additive.toml",
        )
    ]
    assert places == sorted(places)
    assert "seed 3, dev perplexity: −4.00" in page.titles
    assert "zero-masked (invalid), training:" in page.titles

    # Charts for papers, tables for notes and papers.
    drawn = {file.name for file in (home / "charts").iterdir()}
    names = ("differences", "figures", "loss-by-step", "loss-by-tokens", "loss-by-seconds")
    names = (*names, "attention-dot-probe0")
    assert drawn == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert "additive has no weights" in page.words
    for name in names:
        ElementTree.parse(home / "charts" / f"{name}.svg")
        assert (home / "charts" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert "| zero-masked | 1,130,000 | ~~61.00" in (home / "report.md").read_text()
    assert r"\toprule" in (home / "tables.tex").read_text()


@pytest.mark.usefixtures("quick")
def test_what_is_unequal_missing_or_remarked_stands_before_the_figures(tmp_path):
    outcome = outcome_with(
        "dot",
        "additive",
        unequal=["additive: 1,400,000 parameters where dot has 1,130,000"],
        missing=["additive · seed 3: killed by signal 9"],
        remarks=["train.lr was chosen for each variant on dev with seed 0"],
    )
    words = page_of(tmp_path, outcome).words
    for told in ("1,400,000 parameters", "killed by signal 9", "train.lr was chosen"):
        assert words.index(told) < words.index("Lower is better throughout")
    assert "in the same order" not in study_size(outcome)
    assert "INVALID" not in words
    assert "Tuning" not in words


@pytest.mark.usefixtures("quick")
def test_a_better_variant_is_named_as_the_study_named_it(tmp_path):
    words = "additive is better than dot by 3.1 [1.2, 5.0], n = 904, seeds = 5"
    outcome = outcome_with("dot", "additive")
    outcome.verdicts = [judged("dev.perplexity", words=words, better="additive", notes=())]
    page = page_of(tmp_path, outcome)
    assert words in page.words
    assert verdict_sentence(outcome.verdicts[0]) == words


@pytest.mark.usefixtures("quick")
def test_one_seed_says_what_one_seed_cannot_tell(tmp_path):
    outcome = outcome_with("dot", "additive", seeds=1)
    outcome.verdicts = [
        judged("dev.perplexity", seeds=1, per_seed=(-1.9,), notes=("one seed cannot tell",))
    ]
    page = page_of(tmp_path, outcome)
    assert "Another seed would train other models" in page.words
    assert "118.4one seed" in page.words
    assert "1 seed" in study_size(outcome)


@pytest.mark.usefixtures("quick")
def test_every_trial_is_shown_and_the_chosen_one_marked(tmp_path):
    outcome = outcome_with("dot", "additive", tuned=("train.lr",))
    outcome.variants[0].trials = [
        {"train.lr": 5e-4, "dev.perplexity": 130.2, "reason": ""},
        {"train.lr": 1e-3, "dev.perplexity": 118.4, "reason": ""},
        {"train.lr": 9.0, "dev.perplexity": None, "reason": "the loss is not a number"},
    ]
    outcome.variants[0].chosen = {"train.lr": 1e-3}
    words = page_of(tmp_path, outcome).words
    assert "0.0005130.2" in words.replace(" ", "")
    assert "0.001118.4chosen" in words.replace(" ", "")
    assert "the loss is not a number" in words
    assert words.count("chosen") == 1


@pytest.mark.usefixtures("quick")
def test_generated_text_is_labelled_before_any_figure(tmp_path):
    corpus = results_table(model=1.0, kneser_ney=1.0, unigram=1.0)["corpus"]
    corpus |= {"generated": True, "name": "biographies"}
    words = page_of(tmp_path, outcome_with("dot", "additive"), corpus=corpus).words
    assert words.index("Generated data.") < words.index("the figure that decides")


@pytest.mark.usefixtures("quick")
def test_runs_that_are_gone_since_are_named_and_the_rest_is_shown(tmp_path):
    outcome = outcome_with("dot", "additive")
    write_runs(tmp_path, outcome)
    (tmp_path / "dot" / "seed-2" / "results.json").write_text("{")
    (tmp_path / "additive" / "seed-1" / "results.json").unlink()
    words = Page(write_comparison_report(tmp_path, outcome).read_text()).words
    assert "dot · seed 2: run:" in words
    assert "additive · seed 1: its results.json is gone" in words
    assert "118.4" in words
    evidence = read_evidence(tmp_path, outcome)
    assert list(evidence.records["dot"]) == [0, 1, 3, 4]


def test_nothing_finished_still_makes_a_page(tmp_path):
    outcome = outcome_with("dot", "additive")
    outcome.verdicts, outcome.baselines = [], []
    outcome.missing = ["dot · seed 0: disk full", "additive · seed 0: disk full"]
    outcome.variants = [
        VariantOutcome(name, {}, runs=[RunOutcome(0, f"{name}/seed-0", "disk full")])
        for name in ("dot", "additive")
    ]
    tmp_path.joinpath("study.toml").write_text("")
    page = Page(write_comparison_report(tmp_path, outcome).read_text())
    assert "Nothing could be compared." in page.words
    assert "svg" not in {tag for tag, _ in page.elements}
    assert list((tmp_path / "charts").iterdir()) == []
    print_outcome(outcome, tmp_path / "report.html")


@pytest.mark.usefixtures("quick")
def test_a_training_set_that_is_worse_than_dev_is_no_reason_for_a_word(tmp_path):
    # Train is worse than dev here: only a remark of the study itself may speak of overfitting.
    outcome = outcome_with("dot", "additive")
    for variant in outcome.variants:
        variant.estimates["train.perplexity"] = spread(400.0, 5)
    assert "overfit" not in page_of(tmp_path, outcome).words.lower()


def test_other_tokens_are_not_put_side_by_side(tmp_path, quick):
    outcome = outcome_with("dot", "additive", seeds=2)
    write_runs(tmp_path, outcome)
    for seed in (0, 1):
        file = tmp_path / "additive" / f"seed-{seed}" / "results.json"
        table = json.loads(file.read_text())
        table["tokenizer"] |= {"fingerprint": "0" * 64, "name": "char"}
        file.write_text(json.dumps(table))
    evidence = read_evidence(tmp_path, outcome)
    assert evidence.other_tokens == ["additive"]
    drawn = study_charts.figure_chart(evidence, theme=LIGHT, width=860).to_dict()
    assert "additive" not in {row["of"] for row in drawn["datasets"]["rows"]}
    words = Page(write_comparison_report(tmp_path, outcome).read_text()).words
    assert "additive has another tokenizer" in words


@pytest.mark.usefixtures("quick")
def test_the_command_takes_a_study_as_well_as_a_run(tmp_path, monkeypatch):
    app = typer.Typer()
    app.command()(report_command)
    home = tmp_path / "study"
    write_runs(home, outcome_with("dot", "additive"))
    assert CliRunner().invoke(app, [str(home)]).output == f"{home / 'report.html'}\n"
    assert (home / "report.md").is_file()
    elsewhere = tmp_path / "page.html"
    assert CliRunner().invoke(app, [str(home), "--out", str(elsewhere)]).output == f"{elsewhere}\n"
    assert elsewhere.read_text() == (home / "report.html").read_text()
    run = home / "dot" / "seed-0"
    assert CliRunner().invoke(app, [str(run), "--out", str(elsewhere)]).exit_code == 0
    assert "mini-gpt" in elsewhere.read_text()


def test_the_terminal_says_first_what_is_invalid_then_the_verdict(tmp_path, capsys):
    outcome = outcome_with("dot", "additive", "zero-masked", unequal=["additive: other tokens"])
    write_runs(tmp_path, outcome)
    print_outcome(outcome, tmp_path / "report.html")
    told = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in told.splitlines() if line.strip()]
    assert lines[0].startswith("INVALID zero-masked sees the future: position 7 reacts to tokens 8")
    wanted = ("UNEQUAL", "VERDICT additive and dot are not", "variant parameters dev", "report")
    places = [next(n for n, line in enumerate(lines) if line.startswith(w)) for w in wanted]
    assert places == sorted(places)
    assert "dot 1.13 M 118.4 [113.9, 123.2] 120.8 110.1 41.2 s 9,950 clean" in lines
    assert "(61.00 [56.50, 65.80])" in told
    assert str(tmp_path / "report.html") in told.replace("\n", "")
