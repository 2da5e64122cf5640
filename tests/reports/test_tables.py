"""Tables for notes and papers: what a person wrote stays text, what cheats has no figure."""

from __future__ import annotations

import re

from tests.reports.made_study import evidence_of, outcome_with

from regard.reports.tables import latex, markdown


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


def test_a_variant_that_answers_one_class_is_struck_and_named_first(tmp_path):
    outcome = outcome_with("dot", "additive", seeds=2, verdicts=[])
    outcome.variant("additive").collapsed = "answers one class for every row"
    outcome.collapsed = ["additive answers one class for every row"]
    evidence = evidence_of(tmp_path, outcome)
    notes = markdown(evidence)
    assert notes.index("**COLLAPSED** additive answers one class") < notes.index("## Figures")
    assert "~~116.5" in notes
    assert "~~118.4" not in notes
    assert latex(evidence).count(r"\emph{collapsed}") == 3
