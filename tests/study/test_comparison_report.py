"""A study's report: what is invalid first, verdicts that are true, nothing unescaped or loaded."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from tests.study.conftest import HOSTILE, all_comparisons, all_figures, event_lines, figures_table
from typer.testing import CliRunner

from regard.cli.report import report as report_command
from regard.cli.verdict_table import print_outcome
from regard.errors import UserError
from regard.study import comparison_charts, comparison_report, loss_bands, report
from regard.study.comparison_charts import with_titles
from regard.study.comparison_report import write_comparison_report
from regard.study.evidence import (
    Evidence,
    against_baseline,
    differing_settings,
    leaks_of,
    read_evidence,
)
from regard.study.findings import sentence, size_of
from regard.study.outcome import (
    Outcome,
    RunOutcome,
    VariantOutcome,
    VerdictOutcome,
    read_outcome,
)
from regard.study.record import Figure
from regard.study.seed_curves import over_seeds
from regard.study.spread import Spread
from regard.study.tables import latex, markdown
from regard.study.theme import DARK, LIGHT

CLEAN = {"verdict": "clean", "sentence": "clean: nothing seen", "broken": []}
LEAK = {
    "verdict": "leak",
    "sentence": "sees the future: position 7 reacts to tokens 8, 9, 11 (largest influence 0.31)",
    "broken": ["zero-masked: the mask comes after the softmax"],
}
PERPLEXITIES = {"dot": 118.4, "additive": 116.5, "zero-masked": 61.0}


def recipe_of(name: str, kind: str, lr: float) -> str:
    return (
        f'name = "{name}"\n[model]\nwidth = 48\nattention = {{ kind = "{kind}" }}\n'
        f"[train]\nlr = {lr}\nseed = 0\n"
    )


def spread(value: float, seeds: int) -> Spread:
    per_seed = tuple(value + 0.4 * (seed - (seeds - 1) / 2) for seed in range(seeds))
    low, high = (value - 4.5, value + 4.8) if seeds > 1 else (None, None)
    return Spread(value, low, high, per_seed, 2104, "documents")


def variant_of(name: str, *, seeds: int, lr: float = 5e-4) -> VariantOutcome:
    perplexity, kind = PERPLEXITIES[name], name
    return VariantOutcome(
        name,
        {} if name == "dot" else {"model.attention.kind": kind},
        runs=[RunOutcome(seed, f"{name}/seed-{seed}") for seed in range(seeds)],
        parameters=1_130_000,
        steps=1200,
        tokens=412_318,
        operations=3.2e9,
        seconds=41.2,
        tokens_per_second=9950.0,
        peak_memory_bytes=612_000_000,
        final_loss=4.71,
        figures={
            "train.perplexity": spread(perplexity * 0.93, seeds),
            "dev.perplexity": spread(perplexity, seeds),
            "test.perplexity": spread(perplexity * 1.02, seeds),
        },
        audit=dict(LEAK if name == "zero-masked" else CLEAN),
        samples=[
            {"prompt": "The return value", "text": f"of {name} is a string."},
            {"prompt": HOSTILE, "text": HOSTILE},
        ],
        probes=[{"text": HOSTILE, "loss": 4.5, "perplexity": 90.0, "per_seed": [4.4, 4.6]}],
        recipe=recipe_of(name, kind, lr),
    )


def judged(figure: str, **changes: Any) -> VerdictOutcome:
    plain = {
        "words": "not distinguishable at this size",
        "notes": ("additive − dot: −1.9 [−6.0, +2.2], n = 2,104, seeds = 5",),
        "better": "",
        "value": -1.9,
        "low": -6.0,
        "high": 2.2,
        "per_seed": (-1.0, -3.0, 0.5, -4.0, -2.0),
        "n": 2104,
        "seeds": 5,
        "speaks_of": "the methods",
    }
    return VerdictOutcome(figure, "additive", "dot", **(plain | changes))


def outcome_with(*names: str, seeds: int = 5, **changes: Any) -> Outcome:
    every = [variant_of(name, seeds=seeds) for name in names]
    baselines = [
        row
        for row in all_figures(100.0, kneser_ney=104.1, unigram=412.0)
        if row["of"] != "model" and row["part"] != "train"
    ]
    verdicts = []
    for figure in ("dev.perplexity", "test.perplexity"):
        if "additive" in names:
            verdicts.append(judged(figure))
        if "zero-masked" in names:
            why = ("zero-masked could see what it was asked to predict",)
            verdicts.append(VerdictOutcome(figure, "zero-masked", "dot", "not compared", why, ""))
    plain: dict[str, Any] = {
        "name": "dot-vs-additive",
        "question": f"Does additive attention predict better? {HOSTILE}",
        "decides": "dev.perplexity",
        "reference": "dot",
        "seeds": tuple(range(seeds)),
        "budget": "steps",
        "tuned": (),
        "variants": every,
        "verdicts": verdicts,
        "baselines": baselines,
        "unequal": [],
        "invalid": [
            f"{one.name} {one.audit['sentence']}; its perplexity 61 means nothing"
            for one in every
            if not one.is_valid
        ],
        "missing": [],
        "remarks": [],
        "command": "regard compare recipes/dot-vs-additive.toml --seeds 0,1,2,3,4",
    }
    return Outcome(**(plain | changes))


def write_runs(home: Path, outcome: Outcome, **changes: Any) -> None:
    """The run folders that stand behind an outcome, and its own files."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "study.toml").write_text('base = "mini-gpt.toml"\n')
    for variant in outcome.variants:
        for run in variant.runs:
            folder = home / run.folder
            folder.mkdir(parents=True)
            rivals = {"kneser_ney": 104.1, "unigram": 412.0}
            model = PERPLEXITIES[variant.name] + 0.4 * run.seed
            table = figures_table(model=model, **rivals) | {"audit": variant.audit} | changes
            (folder / "figures.json").write_text(json.dumps(table))
            (folder / "events.jsonl").write_text("\n".join(event_lines(200)) + "\n")
            (folder / "recipe.toml").write_text(variant.recipe)
            if not variant.is_valid:
                leaks = [
                    {"query": 7, "key": key, "influence": 0.31 / key, "where": "length 12"}
                    for key in (8, 9, 11)
                ]
                audit = {"schema": 1, **LEAK, "leaks": leaks}
                (folder / "audit.json").write_text(json.dumps(audit))
    (home / "outcome.json").write_text(json.dumps(outcome.as_dict()))


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
    monkeypatch.setattr(comparison_report, "drawings", lambda draw, evidence: [])
    monkeypatch.setattr(report, "drawings", lambda draw, record: [])
    monkeypatch.setattr(comparison_report, "_write_charts", lambda *what: None)


def page_of(home: Path, outcome: Outcome, **changes: Any) -> Page:
    write_runs(home, outcome, **changes)
    return Page(write_comparison_report(home, outcome).read_text())


def evidence_of(home: Path, outcome: Outcome, **changes: Any) -> Evidence:
    write_runs(home, outcome, **changes)
    return read_evidence(home, outcome)


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
    assert drawn == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
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
    assert "in the same order" not in size_of(outcome)
    assert "INVALID" not in words
    assert "Tuning" not in words


@pytest.mark.usefixtures("quick")
def test_a_better_variant_is_named_as_the_study_named_it(tmp_path):
    words = "additive is better than dot by 3.1 [1.2, 5.0], n = 904, seeds = 5"
    outcome = outcome_with("dot", "additive")
    outcome.verdicts = [judged("dev.perplexity", words=words, better="additive", notes=())]
    page = page_of(tmp_path, outcome)
    assert words in page.words
    assert sentence(outcome.verdicts[0]) == words


@pytest.mark.usefixtures("quick")
def test_one_seed_says_what_one_seed_cannot_tell(tmp_path):
    outcome = outcome_with("dot", "additive", seeds=1)
    outcome.verdicts = [
        judged("dev.perplexity", seeds=1, per_seed=(-1.9,), notes=("one seed cannot tell",))
    ]
    page = page_of(tmp_path, outcome)
    assert "Another seed would train other models" in page.words
    assert "118.4one seed" in page.words
    assert "1 seed" in size_of(outcome)


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
    corpus = figures_table(model=1.0, kneser_ney=1.0, unigram=1.0)["corpus"]
    corpus |= {"generated": True, "name": "biographies"}
    words = page_of(tmp_path, outcome_with("dot", "additive"), corpus=corpus).words
    assert words.index("Generated data.") < words.index("the figure that decides")


@pytest.mark.usefixtures("quick")
def test_runs_that_are_gone_since_are_named_and_the_rest_is_shown(tmp_path):
    outcome = outcome_with("dot", "additive")
    write_runs(tmp_path, outcome)
    (tmp_path / "dot" / "seed-2" / "figures.json").write_text("{")
    (tmp_path / "additive" / "seed-1" / "figures.json").unlink()
    words = Page(write_comparison_report(tmp_path, outcome).read_text()).words
    assert "dot · seed 2: run:" in words
    assert "additive · seed 1: its figures.json is gone" in words
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
        variant.figures["train.perplexity"] = spread(400.0, 5)
    assert "overfit" not in page_of(tmp_path, outcome).words.lower()


def test_standings_come_from_the_runs_own_paired_comparisons(tmp_path):
    outcome = outcome_with("dot", "additive")
    write_runs(tmp_path, outcome)
    file = tmp_path / "additive" / "seed-0" / "figures.json"
    table = json.loads(file.read_text())
    table["comparisons"] = all_comparisons(90.0, kneser_ney=104.1, unigram=412.0)
    file.write_text(json.dumps(table))
    baselines = {
        row["of"]: Figure.model_validate(row)
        for row in outcome.baselines
        if (row["part"], row["metric"]) == ("dev", "perplexity")
    }
    evidence = read_evidence(tmp_path, outcome)
    assert against_baseline(evidence, baselines["unigram"]) == "both are better than it"
    assert against_baseline(evidence, baselines["Kneser-Ney 3-gram"]) == (
        "dot is behind it; additive is better than it with 1 of 5 seeds, "
        "behind it with 4 of 5 seeds"
    )


def test_leaks_are_read_back_from_the_audit(tmp_path):
    evidence = evidence_of(tmp_path, outcome_with("dot", "zero-masked", seeds=2))
    found = leaks_of(evidence, evidence.outcome.variant("zero-masked"))
    assert [(leak.query, leak.key) for leak in found] == [(7, 8), (7, 9), (7, 11)]
    (tmp_path / "zero-masked" / "seed-0" / "audit.json").write_text("{")
    assert len(leaks_of(evidence, evidence.outcome.variant("zero-masked"))) == 3
    assert leaks_of(evidence, evidence.outcome.variant("dot")) == []


def test_settings_that_differ_are_those_and_no_others():
    outcome = outcome_with("dot", "additive", tuned=("train.lr",))
    outcome.variants[1] = variant_of("additive", seeds=5, lr=1e-3)
    rows = {row.key: (row.values, row.tuned) for row in differing_settings(outcome)}
    assert rows == {
        "model.attention.kind": (('"dot"', '"additive"'), False),
        "train.lr": (("0.0005", "0.001"), True),
    }


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_variants_that_cheat_are_left_out_of_the_figures_and_labelled_in_the_losses(
    tmp_path, theme
):
    evidence = evidence_of(tmp_path, outcome_with("dot", "additive", "zero-masked", seeds=2))
    figures = comparison_charts.figure_chart(evidence, theme=theme, width=860).to_dict()
    assert {row["of"] for row in figures["datasets"]["rows"]} == {
        *("dot", "additive", "Kneser-Ney 3-gram", "unigram")
    }
    losses = loss_bands.loss_by_step(evidence, theme=theme, width=360).to_dict()
    named = {row["variant"] for row in losses["datasets"]["rows"]}
    assert named == {"dot", "additive", "zero-masked (invalid)"}


def test_other_tokens_are_not_put_side_by_side(tmp_path, quick):
    outcome = outcome_with("dot", "additive", seeds=2)
    write_runs(tmp_path, outcome)
    for seed in (0, 1):
        file = tmp_path / "additive" / f"seed-{seed}" / "figures.json"
        table = json.loads(file.read_text())
        table["tokenizer"] |= {"fingerprint": "0" * 64, "name": "char"}
        file.write_text(json.dumps(table))
    evidence = read_evidence(tmp_path, outcome)
    assert evidence.other_tokens == ["additive"]
    drawn = comparison_charts.figure_chart(evidence, theme=LIGHT, width=860).to_dict()
    assert "additive" not in {row["of"] for row in drawn["datasets"]["rows"]}
    words = Page(write_comparison_report(tmp_path, outcome).read_text()).words
    assert "additive has another tokenizer" in words


def test_titles_keep_what_vega_escaped():
    label = '<path aria-label="a &lt;b&gt; &quot;c&quot;" role="graphics-symbol" '
    drawn = f'{label}aria-roledescription="symbol mark" d="M0,0" fill="#000"/>'
    titled = '<path d="M0,0" fill="#000"><title>a &lt;b&gt; &quot;c&quot;</title></path>'
    assert str(with_titles(drawn)) == titled


points = st.lists(st.floats(-50, 50), min_size=1, max_size=30)


@given(st.lists(points, min_size=1, max_size=5), st.integers(2, 40))
def test_a_band_holds_its_mean_and_stays_within_what_was_seen(seeds, most):
    curves = [[(float(x), y) for x, y in enumerate(curve)] for curve in seeds]
    places = over_seeds(curves, most)
    assert 1 <= len(places) <= most
    lowest, highest = min(map(min, seeds)), max(map(max, seeds))
    for place in places:
        assert lowest - 1e-9 <= place.low <= place.mean + 1e-9
        assert place.mean - 1e-9 <= place.high <= highest + 1e-9
        assert 0 <= place.x <= min(map(len, seeds)) - 1


def test_seeds_at_the_same_places_are_read_off_exactly():
    curves = [[(1, 4.0), (2, 3.0)], [(1, 6.0), (2, 5.0)]]
    assert [(p.x, p.low, p.mean, p.high) for p in over_seeds(curves)] == [
        (1, 4.0, 5.0, 6.0),
        (2, 3.0, 4.0, 5.0),
    ]
    assert over_seeds([[(1, math.nan)], []]) == []


def test_latex_and_markdown_escape_what_a_person_wrote(tmp_path):
    hostile = r"50 % of $x_1$ & {y}~z^2 \input{/etc/passwd} # <b> | `c` *d* [e](f)"
    outcome = outcome_with("dot", "zero-masked", seeds=2, name=hostile, question=hostile)
    evidence = evidence_of(tmp_path, outcome)
    paper = latex(evidence)
    assert r"50 \% of \$x\_1\$ \& \{y\}\textasciitilde{}z\textasciicircum{}2 \textbackslash{}" in (
        paper
    )
    assert r"\input{" not in paper
    assert r"\emph{invalid}" in paper
    assert "61.0" not in paper
    assert r"3.84 $\times$ 10$^{12}$" in paper
    assert paper.count("{") == paper.count("}")
    notes = markdown(evidence)
    assert r"\<b\> \| \`c\` \*d\* [e\](f)" in notes
    rows = [line for line in notes.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert widths == {7, 10}


def test_an_outcome_is_read_back_as_it_was_written(tmp_path):
    outcome = outcome_with("dot", "additive", "zero-masked", question="Which?")
    for variant in outcome.variants:
        variant.samples, variant.probes = [], []
    write_runs(tmp_path, outcome)
    again = read_outcome(tmp_path)
    assert json.loads(json.dumps(again.as_dict())) == json.loads(json.dumps(outcome.as_dict()))
    assert again.verdicts == outcome.verdicts
    assert [one.figures for one in again.variants] == [one.figures for one in outcome.variants]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda table: table.pop("decides"), "damaged at decides"),
        (lambda table: table["variants"][0].pop("name"), r"damaged at variants\.0\.name"),
        (lambda table: table.update(reference="gru"), "gru is judged and is no variant"),
        (lambda table: table["variants"][0].update(audit={}), "damaged at verdict"),
        (lambda table: table.update(schema=99), "schema 99"),
    ],
)
def test_a_damaged_outcome_is_told_in_words(tmp_path, damage, complaint):
    write_runs(tmp_path, outcome_with("dot", "additive"))
    table = json.loads((tmp_path / "outcome.json").read_text())
    damage(table)
    (tmp_path / "outcome.json").write_text(json.dumps(table))
    with pytest.raises(UserError, match=complaint):
        read_outcome(tmp_path)
    (tmp_path / "outcome.json").unlink()
    with pytest.raises(UserError, match="not a finished study"):
        read_outcome(tmp_path)


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


def test_a_verdict_names_both_sides_whatever_it_says():
    plain = judged("dev.perplexity")
    assert sentence(plain) == "additive and dot are not distinguishable at this size"
    assert sentence(replace(plain, words="not compared")) == "additive is not compared with dot"
