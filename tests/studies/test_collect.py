"""What a variant is said to be, from all of its runs."""

from dataclasses import replace

from tests.reports.synthetic_study import CLEAN, LEAK, spread
from tests.studies.test_equality import usable

from regard.runs.archive.record import Events
from regard.studies.collect import _summarize, _why_not_compared
from regard.studies.outcome import VariantOutcome


def run(**facts):
    made = usable(**facts)
    return replace(made, record=replace(made.record, events=Events()))


def test_one_seed_that_could_see_the_answers_makes_the_variant_invalid():
    clean, cheats = VariantOutcome("a", {}), VariantOutcome("b", {})
    _summarize(clean, {0: run(audit=CLEAN), 1: run(audit=CLEAN)})
    _summarize(cheats, {0: run(audit=CLEAN), 1: run(audit=LEAK)})
    assert clean.is_valid
    assert not cheats.is_valid
    assert cheats.audit is not None
    assert "sees the future" in cheats.audit["sentence"]


ONE_CLASS = "all 200 rows are answered '1', the majority class (62.2 %)"


def answers(collapsed=""):
    return run(health={"predictions": {"collapsed": collapsed, "n": 200}})


def test_a_variant_that_answers_one_class_is_set_aside_also_where_some_seeds_do():
    sound, some, every, alone = (VariantOutcome(name, {}) for name in "abcd")
    runs = {
        "a": {0: answers(), 1: answers()},
        "b": {0: answers(), 1: answers(ONE_CLASS)},
        "c": {0: answers(ONE_CLASS), 1: answers(ONE_CLASS)},
    }
    _summarize(sound, runs["a"])
    _summarize(some, runs["b"])
    _summarize(every, runs["c"])
    _summarize(alone, {0: answers(ONE_CLASS)})
    assert sound.is_ranked
    assert some.is_valid
    assert not some.is_ranked
    one_class = "predicts one class for every row"
    assert some.collapsed == f"{one_class} with 1 of 2 seeds: on dev {ONE_CLASS}"
    assert every.collapsed == f"{one_class} with 2 of 2 seeds: on dev {ONE_CLASS}"
    assert alone.collapsed == f"{one_class}: on dev {ONE_CLASS}"
    score_key = "dev.accuracy"
    sound.estimates[score_key] = spread(0.8, seeds=2)
    for one, other in ((sound, some), (some, sound)):
        assert _why_not_compared(score_key, one, other, runs) == f"b {one_class}"
    assert not _why_not_compared(score_key, sound, sound, runs)


def test_a_run_that_does_not_tell_is_not_called_collapsed():
    written = VariantOutcome("a", {})
    _summarize(written, {0: run(), 1: run(health={"predictions": {"flags": [], "n": 3}})})
    assert written.is_ranked
