"""The run report: one self-contained file, everything escaped, a true headline."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
import typer
from tests.wording import says
from typer.testing import CliRunner

from regard.cli.studies.report import report as report_command
from regard.core.errors import UserError
from regard.reports import run_report
from regard.reports.run_report import no_breaks, score_tables, write_report
from regard.runs.archive.read_run import read_run
from regard.runs.results import ScoreRecord

HTML_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section"),
    *("h1", "h2", "h3", "p", "b", "span", "strong", "bdi", "q", "code", "pre", "small"),
    *("ul", "li", "dl", "dt", "dd", "div", "figure", "figcaption", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
SVG_TAGS = {"svg", "g", "path", "rect", "line", "text", "defs", "clippath"}


class Page(HTMLParser):
    """The page as parsed: elements with attributes, visible text, contents of <pre>."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.samples: list[str] = []
        self.feed(html)
        self.words = " ".join(self.text.split())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.open.append(tag)
        if tag == "pre":
            self.samples.append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self.open and "svg" not in self.open:
            self.text += data
        if "pre" in self.open:
            self.samples[-1] += data


@pytest.fixture
def without_charts(monkeypatch):
    """For tests of text: drawing takes most of the time of a report."""
    monkeypatch.setattr(run_report, "draw_inline_charts", lambda *_: [])


def page_of(folder) -> Page:
    return Page(write_report(folder).read_text())


def test_report_is_complete_escaped_and_self_contained(make_run):
    folder = make_run(run="<script>alert(3)</script>")
    html = write_report(folder).read_text()
    page = Page(html)

    # No text from the data became an element, an attribute or a template expression.
    tags = {tag for tag, _ in page.elements}
    assert tags <= HTML_TAGS | SVG_TAGS
    assert not [name for _, attributes in page.elements for name in attributes if name[:2] == "on"]
    assert "<script" not in html.lower()
    assert "{{ 7 * 7 }}" in page.words
    assert any(s.startswith("<script>alert(1)</script></svg></pre></style>") for s in page.samples)
    assert "[U+202E]" in page.words
    assert "\x00" not in html
    assert "\u202e" not in html

    # Nothing is loaded: internal references only.
    assert not [a for _, a in page.elements for name in a if name in ("src", "href", "xlink:href")]
    assert all(target.startswith("#") for target in re.findall(r"url\(\s*['\"]?([^)]*)", html))
    assert "@import" not in html
    assert any("default-src 'none'" in (a.get("content") or "") for _, a in page.elements)

    # Ids are unique although every chart is drawn four times.
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert sum(tag == "svg" for tag, _ in page.elements) == 16

    # All results are on the page.
    for words in (
        "Better than the unigram; behind the Kneser-Ney 3-gram.",
        "the paired differences above do",
        "training set, evaluated after training",
        "Generated after the prompt",
        "regard train recipe.toml",
        "12 empty rows, 3 odd",
        "Truncated in train: 1,204 tokens",
        "4 word for word and 5 nearly so",
        "9 of 2,087 stand in the training set",
        "4 min 1 s",
        "3f9c77ab" * 8,
        "18,000 more characters",
        "perplexity|of:unigram|split:test|bootstrap:2000|level:0.95|seed:0",
        "perplexity_difference|against:unigram|split:test|bootstrap:2000",
    ):
        assert words.lower() in page.words.lower()
    assert "not finished" not in page.words


def test_report_of_a_long_run_stays_small(make_run):
    lines = [
        json.dumps({"event": "step", "step": s, "loss": 9 - s / 20_000, "lr": 1e-3 / s})
        for s in range(1, 20_001)
    ]
    assert write_report(make_run(events=lines)).stat().st_size < 400_000


@pytest.mark.usefixtures("without_charts")
@pytest.mark.parametrize(
    ("kneser_ney", "verdict"),
    [
        (150.0, "Better than the Kneser-Ney 3-gram and the unigram."),
        (90.0, "Better than the unigram; behind the Kneser-Ney 3-gram."),
        (102.0, "Better than the unigram; not distinguishable from the Kneser-Ney 3-gram."),
    ],
)
def test_headline_is_the_test_score_with_interval_and_n(make_run, kneser_ney, verdict):
    page = page_of(make_run(model=100.0, kneser_ney=kneser_ney))
    start = "Perplexity per token, test set 102.0 [97.9, 106.1] n = 2,087 documents "
    assert start + verdict in page.words
    assert says(page.words, "dev set: 100.0 [96.0, 104.0]", "n = 2,104 documents", verdict)
    assert page.words.count("another seed would train another model.") == 1


@pytest.mark.usefixtures("without_charts")
def test_each_baseline_has_its_paired_difference(make_run):
    words = page_of(make_run(model=100.0, kneser_ney=98.0, unigram=400.0)).words
    for sentence in (
        "Kneser-Ney 3-gram: 98.00 [94.08, 101.92]; the model's is 2.0 % higher (+2.0 [−1.0, +5.0], "
        "paired on the same 2,104 documents), not distinguishable from it.",
        "unigram: 408.0 [391.7, 424.3]; the model's is 75 % lower (−306.0 [−309.0, −303.0], "
        "paired on the same 2,087 documents).",
    ):
        assert sentence in words


@pytest.mark.usefixtures("without_charts")
def test_groups_stand_wherever_n_does(make_run):
    folder = make_run()
    file = folder / "results.json"
    results = json.loads(file.read_text())
    for row in (*results["estimates"], *results["comparisons"]):
        row["groups"] = 64
    file.write_text(json.dumps(results))
    words = page_of(folder).words
    assert re.findall(r"2,087 documents(?! in 64 groups| occur)", words) == []
    assert words.count("2,087 documents in 64 groups") >= 4


@pytest.mark.usefixtures("without_charts")
def test_headline_works_with_unknown_split_names(make_run):
    folder = make_run()
    text = (folder / "results.json").read_text()
    for split in ("dev", "test"):
        text = text.replace(f'"split": "{split}"', f'"split": "{split}-<b>X</b>"')
    (folder / "results.json").write_text(text)
    words = page_of(folder).words
    assert "Perplexity per token, dev-<b>X</b> set 118.4" in words
    assert "On the test-<b>X</b> set: 120.8" in words


@pytest.mark.usefixtures("without_charts")
def test_missing_interval_names_the_reason(make_run):
    alone = {
        "n": 1,
        "low": None,
        "high": None,
        "no_interval": "one item cannot show how items vary",
    }
    folder = make_run()
    table = json.loads((folder / "results.json").read_text())
    for row in (*table["estimates"], *table["comparisons"]):
        row |= alone
        row |= {"verdict": "not distinguishable from"} if "verdict" in row else {}
    (folder / "results.json").write_text(json.dumps(table))
    words = page_of(folder).words
    assert says(words, "120.8 no interval", "n = 1 document ", "Not distinguishable from")
    assert "No interval: one item cannot" in words
    assert "another seed" not in words


@pytest.mark.usefixtures("without_charts")
def test_remarks_section_is_optional(make_run):
    assert "Remarks" in page_of(make_run()).words
    assert "Remarks" not in page_of(make_run(remarks=[])).words


def test_no_breaks_keeps_names_and_intervals_on_one_line():
    html = no_breaks("Behind the Kneser-Ney 3-gram (+8.0 [+7.0, +9.0], 7 %) <b-b>")
    assert html == (
        'Behind the <span class="whole">Kneser-Ney</span> <span class="whole">3-gram</span> '
        '<span class="whole">(+8.0 [+7.0, +9.0],</span> 7\u00a0%) '
        '<span class="whole">&lt;b-b&gt;</span>'
    )


@pytest.mark.usefixtures("without_charts")
def test_report_of_an_unfinished_run(make_run):
    lines = [
        json.dumps({"event": "start", "time": "2026-11-15T20:00:00Z", "steps": 1200}),
        json.dumps(
            {
                "event": "evaluation",
                "step": 100,
                "loss": 5.9,
                "scores": {"perplexity": 365},
                "n": 200,
            }
        ),
        "not json",
    ]
    page = page_of(make_run(finished=False, events=lines))
    assert says(page.words, "not finished", "step 100 of 1,200", "is not a result.")
    assert says(page.words, "1 line of events.jsonl", "could not be read")
    assert says(page.words, "at step 100, so far", "365.0", "n = 200")


def test_report_begins_with_a_divergence(make_run):
    stopped = {"event": "divergence", "step": 3, "text": "the loss is not finite at step 3"}
    page = page_of(make_run(events=[json.dumps(stopped)], finished=False))
    assert says(page.words, "DIVERGED", "not finite at step 3", "not finished")
    rising = [
        json.dumps({"event": "step", "step": n, "loss": 3.0 if 3 < n < 60 else 8.0})
        for n in range(1, 101)
    ]
    assert says(page_of(make_run(events=rising)).words, "DIVERGED", "8.00 at the end", "118.4")
    assert "DIVERGED" not in page_of(make_run()).words


def test_report_of_a_run_without_events(make_run):
    page = page_of(make_run(finished=False, events=[]))
    assert "No evaluation yet." in page.words
    assert not [tag for tag, _ in page.elements if tag == "svg"]


@pytest.mark.usefixtures("without_charts")
def test_generated_data_is_labelled_before_the_headline(make_run):
    folder = make_run()
    assert "Generated data" not in page_of(folder).words
    table = json.loads((folder / "results.json").read_text())
    table["corpus"] |= {"name": "biographies", "generated": True}
    (folder / "results.json").write_text(json.dumps(table))
    words = page_of(folder).words
    facts = ("Generated data", "biographies", "generated by a program", "Perplexity per token")
    assert says(words, *facts)


@pytest.mark.usefixtures("without_charts")
def test_report_without_optional_sections(make_run):
    bare = {"corpus": None, "tokenizer": None, "cost": {}, "samples": [], "environment": {}}
    words = page_of(make_run(estimates=[], comparisons=[], remarks=[], **bare)).words
    assert "The model has no scores." in words


def test_score_tables_have_every_score_once_and_the_model_first(make_run):
    scores = read_run(make_run()).results.estimates
    tables = score_tables(scores)
    assert [table.split for table in tables] == ["test", "dev", "train"]
    assert [of for of, _ in tables[0].rows] == ["model", "Kneser-Ney 3-gram", "unigram"]
    assert tables[0].metrics[0] == "perplexity"
    cells = [score for table in tables for _, row in table.rows for score in row]
    assert sorted(map(repr, cells)) == sorted(map(repr, scores))
    assert tables[0].shared_n == "2,087 documents"


def test_shared_n_is_none_if_n_differs():
    scores = [
        ScoreRecord(split="dev", metric="perplexity", of=of, value=3.0, n=n)
        for of, n in (("model", 5), ("unigram", 6))
    ]
    assert score_tables(scores)[0].shared_n is None


@pytest.mark.usefixtures("without_charts")
def test_report_is_written_atomically(make_run, tmp_path, monkeypatch):
    folder = make_run()
    before = {file.name for file in folder.iterdir()}
    target = write_report(folder, out=tmp_path / "pages" / "a.html")
    assert target.read_text().startswith("<!doctype html>")
    assert [file.name for file in target.parent.iterdir()] == ["a.html"]

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_report(folder)
    assert {file.name for file in folder.iterdir()} == before


@pytest.mark.usefixtures("without_charts")
def test_unwritable_output_path_is_refused(make_run, tmp_path):
    folder = make_run()
    with pytest.raises(UserError, match=r"is a folder\. Name a file"):
        write_report(folder, out=tmp_path)
    with pytest.raises(UserError, match="cannot be written"):
        write_report(folder, out=folder / "recipe.toml" / "report.html")


@pytest.mark.usefixtures("without_charts")
def test_report_command_prints_the_path(make_run, tmp_path):
    app = typer.Typer()
    app.command()(report_command)
    folder, out = make_run(), tmp_path / "page.html"
    assert CliRunner().invoke(app, [str(folder)]).output == f"{folder / 'report.html'}\n"
    assert CliRunner().invoke(app, [str(folder), "--out", str(out)]).output == f"{out}\n"
    assert out.read_text() == (folder / "report.html").read_text()
