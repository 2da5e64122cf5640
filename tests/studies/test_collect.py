"""Summary of a variant from all of its runs."""

from dataclasses import replace

from tests.reports.synthetic_study import CLEAN, LEAK, spread
from tests.studies.test_equality import completed_run

from regard.runs.archive.record import Events
from regard.studies.collect import _summarize, _why_not_compared
from regard.studies.outcome import VariantOutcome


def run(**facts):
    completed = completed_run(**facts)
    return replace(completed, record=replace(completed.record, events=Events()))


def test_one_leaking_seed_makes_the_variant_invalid():
    clean, leaks = VariantOutcome("a", {}), VariantOutcome("b", {})
    _summarize(clean, {0: run(audit=CLEAN), 1: run(audit=CLEAN)})
    _summarize(leaks, {0: run(audit=CLEAN), 1: run(audit=LEAK)})
    assert clean.is_valid
    assert not leaks.is_valid
    assert leaks.audit is not None
    assert "sees the future" in leaks.audit["sentence"]


ONE_CLASS = "all 200 rows are answered '1', the majority class (62.2 %)"


def classifier_run(collapsed=""):
    return run(health={"predictions": {"collapsed": collapsed, "n": 200}})


def test_variant_with_collapsed_seeds_is_not_ranked():
    healthy, some, every, alone = (VariantOutcome(name, {}) for name in "abcd")
    runs = {
        "a": {0: classifier_run(), 1: classifier_run()},
        "b": {0: classifier_run(), 1: classifier_run(ONE_CLASS)},
        "c": {0: classifier_run(ONE_CLASS), 1: classifier_run(ONE_CLASS)},
    }
    _summarize(healthy, runs["a"])
    _summarize(some, runs["b"])
    _summarize(every, runs["c"])
    _summarize(alone, {0: classifier_run(ONE_CLASS)})
    assert healthy.is_ranked
    assert some.is_valid
    assert not some.is_ranked
    one_class = "predicts one class for every row"
    assert some.collapsed == f"{one_class} with 1 of 2 seeds: on dev {ONE_CLASS}"
    assert every.collapsed == f"{one_class} with 2 of 2 seeds: on dev {ONE_CLASS}"
    assert alone.collapsed == f"{one_class}: on dev {ONE_CLASS}"
    score_key = "dev.accuracy"
    healthy.estimates[score_key] = spread(0.8, seeds=2)
    for one, other in ((healthy, some), (some, healthy)):
        assert _why_not_compared(score_key, one, other, runs) == f"b {one_class}"
    assert not _why_not_compared(score_key, healthy, healthy, runs)


def test_run_without_predictions_is_not_collapsed():
    variant = VariantOutcome("a", {})
    _summarize(variant, {0: run(), 1: run(health={"predictions": {"flags": [], "n": 3}})})
    assert variant.is_ranked
