"""Charts of a study: invalid variants are left out or labelled, and tooltips stay text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.reports.synthetic_study import evidence_of, outcome_with

from regard.reports.charts import loss_bands, study_charts
from regard.reports.charts.study_charts import labels_to_tooltips
from regard.reports.charts.theme import DARK, LIGHT


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_invalid_variants_have_no_scores_and_labelled_losses(tmp_path, theme):
    evidence = evidence_of(tmp_path, outcome_with("dot", "additive", "zero-masked", seeds=2))
    scores = study_charts.score_chart(evidence, theme=theme, width=860).to_dict()
    assert {row["of"] for row in scores["datasets"]["rows"]} == {
        *("dot", "additive", "Kneser-Ney 3-gram", "unigram")
    }
    losses = loss_bands.loss_by_step(evidence, theme=theme, width=360).to_dict()
    named = {row["variant"] for row in losses["datasets"]["rows"]}
    assert named == {"dot", "additive", "zero-masked (invalid)"}


def with_length_scores(record, values):
    """The same run with a table of scores by source length."""
    assert record.results is not None
    common = {"split": "test", "metric": "bleu", "items": "sentences", "n": 40}
    rows = [
        {**common, "words": words, "value": value, "low": value - 2, "high": value + 2}
        for words, value in values.items()
    ]
    results = record.results.model_copy(update={"tables": {"by source length": rows}})
    return replace(record, results=results)


def test_length_chart_shows_valid_variants_side_by_side(tmp_path):
    evidence = evidence_of(tmp_path, outcome_with("dot", "additive", "zero-masked", seeds=2))
    assert study_charts.length_chart(evidence, theme=LIGHT, width=860) is None
    by_length = {"below 8": 30.0, "8 to 11": 20.0}
    records = {
        name: {seed: with_length_scores(run, by_length) for seed, run in runs.items()}
        for name, runs in evidence.records.items()
    }
    outcome = replace(evidence.outcome, decides="dev.bleu")
    evidence = replace(evidence, records=records, outcome=outcome)
    drawn = study_charts.length_chart(evidence, theme=LIGHT, width=860).to_dict()
    rows = drawn["datasets"]["rows"]
    assert {row["of"] for row in rows} == {"dot", "additive"}  # not the invalid one
    assert len(rows) == 2 * 2 * 2
    assert [row["words"] for row in rows[:2]] == ["below 8", "8 to 11"]


@pytest.mark.parametrize(
    ("decides", "side", "scale"),
    [("dev.perplexity", "left", "log"), ("dev.accuracy", "right", None)],
)
def test_axis_title_names_the_better_side(tmp_path, decides, side, scale):
    outcome = replace(outcome_with("dot", "additive", seeds=2), decides=decides)
    metric = decides.partition(".")[2]
    for variant in outcome.variants:
        for split in ("dev", "test"):
            variant.estimates[f"{split}.{metric}"] = variant.estimates[f"{split}.perplexity"]
    outcome.baselines = [
        row.model_copy(update={"metric": metric, "value": 1.0, "low": 0.9, "high": 1.1})
        for row in outcome.baselines
    ]
    evidence = evidence_of(tmp_path, outcome)
    drawn = study_charts.score_chart(evidence, theme=LIGHT, width=860).to_dict()
    x = drawn["layer"][0]["encoding"]["x"]
    assert x["title"].endswith(f"{side} is better")
    assert x["scale"].get("type") == scale


def test_tooltips_keep_vega_escapes():
    label = '<path aria-label="a &lt;b&gt; &quot;c&quot;" role="graphics-symbol" '
    drawn = f'{label}aria-roledescription="symbol mark" d="M0,0" fill="#000"/>'
    titled = '<path d="M0,0" fill="#000"><title>a &lt;b&gt; &quot;c&quot;</title></path>'
    assert str(labels_to_tooltips(drawn)) == titled
