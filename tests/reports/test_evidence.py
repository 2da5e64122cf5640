"""Records read back from a study's run folders, and sentences about them."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.reports.synthetic_study import evidence_of, judged, outcome_with, variant_of, write_runs
from tests.synthetic_run import all_comparisons
from tests.wording import says

from regard.reports.evidence import (
    differing_settings,
    read_evidence,
    recorded_leaks,
    versus_baseline,
)
from regard.reports.study_text import verdict_sentence


def test_versus_baseline_uses_the_paired_comparisons_of_the_runs(tmp_path):
    outcome = outcome_with("dot", "additive")
    write_runs(tmp_path, outcome)
    file = tmp_path / "additive" / "seed-0" / "results.json"
    table = json.loads(file.read_text())
    table["comparisons"] = all_comparisons(90.0, kneser_ney=104.1, unigram=412.0)
    file.write_text(json.dumps(table))
    baselines = {
        row.of: row for row in outcome.baselines if (row.split, row.metric) == ("dev", "perplexity")
    }
    evidence = read_evidence(tmp_path, outcome)
    assert versus_baseline(evidence, baselines["unigram"]) == "both are better than it"
    versus = versus_baseline(evidence, baselines["Kneser-Ney 3-gram"])
    assert says(versus, "dot is behind", "additive is better", "1 of 5 seeds", "behind", "4 of 5")


def test_recorded_leaks_come_from_the_audit_file(tmp_path):
    evidence = evidence_of(tmp_path, outcome_with("dot", "zero-masked", seeds=2))
    found = recorded_leaks(evidence, evidence.outcome.variant("zero-masked"))
    assert [(leak.query, leak.key) for leak in found] == [(7, 8), (7, 9), (7, 11)]
    (tmp_path / "zero-masked" / "seed-0" / "audit.json").write_text("{")
    assert len(recorded_leaks(evidence, evidence.outcome.variant("zero-masked"))) == 3
    assert recorded_leaks(evidence, evidence.outcome.variant("dot")) == []


def test_differing_settings_are_found_exactly():
    outcome = outcome_with("dot", "additive", tuned=("train.lr",))
    outcome.variants[1] = variant_of("additive", seeds=5, lr=1e-3)
    rows = {row.key: (row.values, row.tuned) for row in differing_settings(outcome)}
    assert rows == {
        "model.attention.kind": (('"dot"', '"additive"'), False),
        "train.lr": (("0.0005", "0.001"), True),
    }


def test_verdict_sentence_names_both_variants():
    plain = judged("dev.perplexity")
    assert says(verdict_sentence(plain), "additive and dot", "not distinguishable")
    assert (
        verdict_sentence(replace(plain, sentence="not compared"))
        == "additive is not compared with dot"
    )
