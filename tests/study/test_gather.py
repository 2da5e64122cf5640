"""What a variant is said to be, from all of its runs."""

from dataclasses import replace

from tests.study.made_study import CLEAN, LEAK
from tests.study.test_equality import usable

from regard.study.gather import _fill
from regard.study.outcome import VariantOutcome
from regard.study.record import Events


def run(**facts):
    made = usable(**facts)
    return replace(made, record=replace(made.record, events=Events()))


def test_one_seed_that_could_see_the_answers_makes_the_variant_invalid():
    clean, cheats = VariantOutcome("a", {}), VariantOutcome("b", {})
    _fill(clean, {0: run(audit=CLEAN), 1: run(audit=CLEAN)})
    _fill(cheats, {0: run(audit=CLEAN), 1: run(audit=LEAK)})
    assert clean.is_valid
    assert not cheats.is_valid
    assert cheats.audit is not None
    assert "sees the future" in cheats.audit["sentence"]
