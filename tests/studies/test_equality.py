"""Unequal conditions between variants are reported, equal ones are not."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.runs.archive.record import RunRecord
from regard.runs.results import ResultsRecord
from regard.studies.completed_runs import CompletedRun
from regard.studies.equality import machine_remarks, unequal_conditions
from regard.studies.outcome import VariantOutcome

STUDY = SimpleNamespace(
    study=SimpleNamespace(tolerance=0.05, budget="steps"),
    variants=[SimpleNamespace(name="a", against="a"), SimpleNamespace(name="b", against="a")],
)


def variant(name: str, **facts) -> VariantOutcome:
    sizes = {"parameters": 1000, "tokens": 500, "steps": 10}
    return VariantOutcome(name, {}, **{**sizes, **facts})


def completed_run(**facts) -> CompletedRun:
    table = {
        "run": "x",
        "finished": "now",
        "estimates": (),
        "items": {split: {"documents": "d", "scored": "t"} for split in ("train", "dev", "test")},
        "order": "o",
        "tokenizer": {"name": "bpe", "size": 9, "fingerprint": "f"},
        "cost": {"steps": 10, "tokens": 500, "seconds": 20.0},
        **facts,
    }
    results = ResultsRecord.model_validate(table)
    record = RunRecord(Path(), "x", "", None, results)
    return CompletedRun(record, results, DocumentMetric(), {})


def differences(other: VariantOutcome, **facts) -> list[str]:
    variants = {"a": variant("a"), "b": other}
    runs = {
        "a": {0: completed_run(), 1: completed_run()},
        "b": {0: completed_run(), 1: completed_run(**facts)},
    }
    return unequal_conditions(STUDY, variants, runs)


def test_equal_variants_have_no_differences():
    assert differences(variant("b")) == []
    assert differences(variant("b", parameters=1040)) == []


def test_sizes_beyond_the_tolerance():
    [expected] = differences(variant("b", parameters=1100))
    assert re.fullmatch(r"b: 1,100 parameters .* 1,000 \(\+10\.0%.* 5%\)", expected)
    longer = {"steps": 12, "tokens": 510, "seconds": 20.0}
    steps, tokens = differences(variant("b"), cost=longer)
    assert re.fullmatch(r"b: 11 steps .* a.* 10 \(\+10\.0%\)", steps)
    assert re.fullmatch(r"b: 505 tokens .* a.* 500 \(\+1\.0%\)", tokens)


def test_runs_are_compared_by_seed():
    one_more = {"steps": 10, "tokens": 501, "seconds": 20.0}
    variants = {"a": variant("a"), "b": variant("b")}
    runs = {
        "a": {0: completed_run(), 1: completed_run(cost=one_more)},
        "b": {1: completed_run(cost=one_more)},
    }
    [unshared] = unequal_conditions(STUDY, variants, runs)
    assert re.match("b: seed 0 .* one side .*left out", unshared)


def test_other_order_or_tokenizer_names_the_seed():
    [expected] = differences(variant("b"), order="other")
    assert re.fullmatch(r"b: other tokens.* order \(seed 1\)", expected)
    other = {"name": "bpe", "size": 9, "fingerprint": "g"}
    assert "another tokenizer" in differences(variant("b"), tokenizer=other)[0]


def test_unshared_seed():
    variants = {"a": variant("a"), "b": variant("b")}
    runs = {"a": {0: completed_run(), 1: completed_run()}, "b": {0: completed_run()}}
    [unshared] = unequal_conditions(STUDY, variants, runs)
    assert re.match("b: seed 1 .* one side .*left out", unshared)


def test_several_unshared_seeds():
    variants = {"a": variant("a"), "b": variant("b")}
    runs = {"a": {0: completed_run(), 1: completed_run()}, "b": {2: completed_run()}}
    expected = ["b: seeds 0, 1 and 2 are on one side only and left out"]
    assert unequal_conditions(STUDY, variants, runs) == expected


def with_budget(budget: str) -> SimpleNamespace:
    return SimpleNamespace(
        study=SimpleNamespace(tolerance=0.05, budget=budget), variants=STUDY.variants
    )


def test_flop_budget_ignores_steps_and_tokens():
    variants = {
        "a": variant("a", operations=7.0),
        "b": replace(variant("b", operations=10.0), steps=7, tokens=350),
    }
    fewer = {"steps": 7, "tokens": 350, "seconds": 90.0}
    runs = {"a": {0: completed_run()}, "b": {0: completed_run(cost=fewer)}}
    assert unequal_conditions(with_budget("flops"), variants, runs) == []
    variants["b"].steps = 8
    [operations] = unequal_conditions(with_budget("flops"), variants, runs)
    assert re.fullmatch(r"b: 80 FLOPs .* a.* 70 \(\+14\.3%\)", operations)


def test_time_budget_reports_unequal_times():
    variants = {"a": variant("a"), "b": variant("b")}
    for seconds, expected in (
        (20.5, []),
        (25.0, ["b: 25 seconds of training where a had 20 (+25.0%)"]),
    ):
        runs = {"a": {0: completed_run()}, "b": {0: completed_run(cost={"seconds": seconds})}}
        assert unequal_conditions(with_budget("seconds"), variants, runs) == expected


def test_runs_of_several_kinds_of_cpu_are_said_and_compared():
    here = {"cpu": "AMD EPYC", "torch": "2.13.0", "products": "torch"}
    there = here | {"cpu": "Intel Xeon"}
    same = {"a": {seed: completed_run(environment=here) for seed in range(6)}}
    assert machine_remarks(same) == []
    one = {"b": {0: completed_run(environment=there)}}
    assert machine_remarks(same | one) == [
        "the runs are of 2 kinds of CPU, between which bits may differ (AMD EPYC: 6 runs, the "
        "first a seed 0; Intel Xeon: b seed 0)"
    ]
    other = {"b": {0: completed_run(environment=here | {"torch": "2.14.0"})}}
    [remark] = machine_remarks(same | other)
    assert remark.startswith("the runs are of 2 versions of torch")
    assert differences(variant("b"), environment=there) == [], "they are compared nevertheless"


def test_runs_of_a_version_that_noted_no_cpu_are_not_of_another():
    old, new = completed_run(environment={}), completed_run(environment={"cpu": "AMD EPYC"})
    assert machine_remarks({"a": {0: old, 1: new}}) == []
