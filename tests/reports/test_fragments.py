"""Fragments for notebooks: what the report says, escaped, without scripts or requests."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.reports.synthetic_study import LEAK, outcome_with, write_runs
from tests.synthetic_run import HOSTILE, MakeRun

from regard import api
from regard.audits.findings import Leak
from regard.core.html_display import HtmlDisplay
from regard.core.ledger import Ledger, ParameterCount, TrainedTensor
from regard.reports.versus_baselines import headlines
from regard.runs.results import AuditRecord
from regard.runs.run import Run
from regard.studies.outcome import read_outcome


class Page(HTMLParser):
    """Tags, attributes and words of a page."""

    def __init__(self, html: str | None) -> None:
        super().__init__()
        assert html is not None
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.lasttag != "style":
            self.texts.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.texts).split())


def shown(result: HtmlDisplay) -> Page:
    """The fragment of a result, which has neither a script nor a request."""
    page = Page(result._repr_html_())
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    assert page.tags.count("style") == 1
    return page


def test_run_shows_the_verdict_and_the_loss_curve_of_its_report(make_run: MakeRun) -> None:
    run = Run(make_run())
    page, report = shown(run), Page(api.report(run.folder).read_text())
    [main, *_] = headlines(run.results())
    for text in ("118.4 [113.7, 123.1]", "behind the Kneser-Ney 3-gram", main.versus[0].sentence):
        assert "".join(text.split()) in "".join(page.words.split())
        assert "".join(text.split()) in "".join(report.words.split())
    assert page.tags.count("svg") == 2, "in light and dark"


def test_unfinished_run_says_so(make_run: MakeRun) -> None:
    page = shown(Run(make_run(finished=False)))
    assert "not finished" in page.words
    assert "perplexity" in page.words.lower()


def test_results_show_every_split(make_run: MakeRun) -> None:
    page = shown(Run(make_run()).results())
    assert {"118.4", "120.8", "106.6"} <= set(page.words.split())
    assert "Hostile" in page.words


def test_invalid_results_are_marked_first(make_run: MakeRun) -> None:
    audit = LEAK.model_dump()
    for result in (Run(make_run(audit=audit)), Run(make_run(audit=audit)).results()):
        words = shown(result).words
        assert words.index("Invalid") < words.index("118.4" if "118.4" in words else "120.8")
        assert "position 7 reacts to tokens 8, 9, 11" in words


def test_outcome_shows_verdicts_table_and_differences(tmp_path: Path) -> None:
    write_runs(tmp_path, outcome_with("dot", "additive", "zero-masked"))
    outcome = read_outcome(tmp_path)
    page, report = shown(outcome), Page(api.report(tmp_path).read_text())
    for text in (
        "additive and dot are not distinguishable",
        "−1.9 [−6.0, +2.2]",
        "zero-masked sees the future",
        "INVALID",
    ):
        assert text in page.words
        assert text in report.words
    assert "<script>" in page.words, "the hostile question, as text"
    assert page.tags.count("svg") >= 3, "differences in light and dark, and where it leaks"


def test_outcome_without_its_runs_still_has_its_verdicts(tmp_path: Path) -> None:
    outcome = outcome_with("dot", "additive")
    outcome.folder = tmp_path / "gone"
    page = shown(outcome)
    assert "−1.9 [−6.0, +2.2]" in page.words
    assert "can no longer be read" in page.words


def test_audit_shows_its_sentence_and_where_it_leaks() -> None:
    leaks = tuple(
        Leak(query=1, key=key, influence=0.5, how="perturbation", where="length 4")
        for key in (2, 3)
    )
    audit = AuditRecord(
        target=HOSTILE,
        verdict="leak",
        sentence="sees the future",
        mask="causal",
        leaks=leaks,
        unchecked=(HOSTILE,),
    )
    page = shown(audit)
    assert "sees the future" in page.words
    assert "svg" in page.tags
    clean = shown(AuditRecord(verdict="clean", sentence="clean: nothing", mask="causal"))
    assert "svg" not in clean.tags


def test_ledger_shows_counts_and_formulas() -> None:
    term = ParameterCount("query <script>", "r · (w + w)", 1536)
    tensor = TrainedTensor("block.0.<script>", (8, 192), 1536)
    page = shown(Ledger("lora", (tensor,), 1536, 100_000, (term,), is_projected=True))
    for text in ("1,536 of 100,000", "1.54 %", "r · (w + w)", "8 × 192", "would be"):
        assert text in page.words


def test_without_a_renderer_a_notebook_shows_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HtmlDisplay, "render_html", None)
    assert Run(Path("runs/mini-gpt"))._repr_html_() is None
