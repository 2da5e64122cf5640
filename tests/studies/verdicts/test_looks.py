"""Studies judged again with more seeds: what they said before is kept, and said."""

from dataclasses import replace

from tests.reports.synthetic_study import judged, outcome_with
from tests.wording import says

from regard.evaluation.statistics.looks import wrong_verdict_rate
from regard.studies.outcome import read_outcome, write_outcome
from regard.studies.verdicts.looks import add_look

KEYS = ("dev.perplexity", "test.perplexity")
FEWER = {"sentence": "additive is better than dot", "notes": (), "better": "additive"}


def study_at(seeds, before=None, *, date="2026-11-19T10:00:00+00:00", **changes):
    """An outcome with this many seeds, judged after the outcome `before`."""
    verdicts = [judged(key, seeds=seeds, **changes) for key in KEYS]
    outcome = outcome_with("dot", "additive", seeds=seeds, verdicts=verdicts)
    add_look(outcome, before, date=date)
    return outcome


def looked_at(outcome):
    return [len(look.verdicts[0].seeds) for look in outcome.looks]


def test_first_look_is_kept_and_adds_no_note():
    outcome = study_at(3)
    assert looked_at(outcome) == [3]
    assert outcome.verdicts == [judged(key, seeds=3) for key in KEYS]
    [look] = outcome.looks
    assert (look.verdicts[0].value, look.verdicts[0].better) == (-1.9, "")


def test_earlier_looks_are_said_with_the_rate_of_wrong_verdicts():
    outcome = study_at(8, study_at(5, study_at(3)), **FEWER)
    assert looked_at(outcome) == [3, 5, 8]
    for verdict in outcome.verdicts:
        rate = 100 * wrong_verdict_rate([range(3), range(5), range(8)])
        assert says(
            verdict.notes[-1],
            *("before at 3 and 5 seeds", "2026-11-19 not distinguishable"),
            *("3 times", f"{rate:.0f} %"),
        )


def test_judging_the_same_seeds_again_is_no_other_look():
    first = study_at(5, study_at(3))
    again = study_at(5, first, date="2027-01-01T10:00:00+00:00")
    assert again.looks == first.looks
    fewer = study_at(3, again)
    assert looked_at(fewer) == [5, 3]
    assert says(fewer.verdicts[0].notes[-1], "before at 5 seeds", "2 times")


def test_a_look_at_one_seed_is_said_but_tests_no_method():
    outcome = study_at(5, study_at(1))
    note = outcome.verdicts[0].notes[-1]
    assert "before at 1 seed " in note
    assert "null" not in note


def test_a_study_of_an_earlier_version_counts_as_a_look():
    former = study_at(3)
    former.looks = []
    outcome = study_at(5, former)
    assert looked_at(outcome) == [3, 5]
    assert outcome.looks[0].date == ""
    assert says(outcome.verdicts[0].notes[-1], "before at 3 seeds (not distinguishable)", "2 times")


def test_what_was_not_compared_is_no_look():
    nothing = study_at(3, value=None)
    assert nothing.looks == []
    assert looked_at(study_at(5, nothing)) == [5]
    assert looked_at(study_at(8, study_at(5, nothing), value=None)) == [5]


def test_looks_are_stored(tmp_path):
    outcome = study_at(5, study_at(3))
    assert write_outcome(tmp_path, outcome).looks == outcome.looks
    assert read_outcome(tmp_path).looks == outcome.looks
    assert replace(outcome.looks[0], verdicts=()) != outcome.looks[0]
