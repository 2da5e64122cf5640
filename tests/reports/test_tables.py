"""Markdown and LaTeX tables: user text is escaped, invalid variants have no scores."""

from __future__ import annotations

import re

from tests.reports.synthetic_study import evidence_of, outcome_with

from regard.reports.tables import latex, markdown


def test_latex_and_markdown_escape_user_text(tmp_path):
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


def test_collapsed_variant_is_struck_and_named_first(tmp_path):
    outcome = outcome_with("dot", "additive", seeds=2, verdicts=[])
    outcome.variant("additive").collapsed = "predicts one class for every row"
    outcome.collapsed = ["additive predicts one class for every row"]
    evidence = evidence_of(tmp_path, outcome)
    notes = markdown(evidence)
    assert notes.index("**COLLAPSED** additive predicts one class") < notes.index("## Results")
    assert "~~116.5" in notes
    assert "~~118.4" not in notes
    assert latex(evidence).count(r"\emph{collapsed}") == 3
