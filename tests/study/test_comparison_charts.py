"""The pictures of a study: what cheats is left out or labelled, and titles stay text."""

from __future__ import annotations

import pytest
from tests.study.made_study import evidence_of, outcome_with

from regard.study import comparison_charts, loss_bands
from regard.study.comparison_charts import with_titles
from regard.study.theme import DARK, LIGHT


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


def test_titles_keep_what_vega_escaped():
    label = '<path aria-label="a &lt;b&gt; &quot;c&quot;" role="graphics-symbol" '
    drawn = f'{label}aria-roledescription="symbol mark" d="M0,0" fill="#000"/>'
    titled = '<path d="M0,0" fill="#000"><title>a &lt;b&gt; &quot;c&quot;</title></path>'
    assert str(with_titles(drawn)) == titled
