import math
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from regard.evaluation.statistics.significance import MethodDifference, holm
from regard.evaluation.statistics.verdict import NOT_DISTINGUISHABLE, verdict


def told(value=-1.9, *, per_seed=(-1.0, -2.8), n=904, **known):
    known = {"se_seeds": 1.4, "se_items": 0.5, "se_lasting": 0.3} | known
    return MethodDifference(a="additive", b="dot", value=value, per_seed=per_seed, n=n, **known)


def test_the_better_is_named_whichever_way_round():
    found = told(-3.1, se_seeds=0.1, se_items=0.1, per_seed=(-3.1,) * 5)
    assert str(verdict(found, lower_is_better=True)) == (
        "additive is better than dot by 3.10 [2.71, 3.49], n = 904, seeds = 5"
    )
    assert verdict(found, lower_is_better=False).better == "dot"
    assert verdict(replace(found, value=3.1), lower_is_better=True).better == "dot"


def test_what_is_not_found_says_what_it_takes():
    said = verdict(told(per_seed=(-1.9,) * 5), lower_is_better=True)
    assert said.sentence == NOT_DISTINGUISHABLE
    assert said.better == ""
    assert said.notes == (
        "additive − dot: −1.9 [−6.0, +2.2], n = 904, seeds = 5",
        "seeds limit, not documents: about 32 seeds would show a difference of 1.9",
        "at this size a difference of 5.6 is found four times in five",
    )


def test_where_items_limit_items_are_asked_for():
    said = verdict(told(per_seed=(-1.9,) * 5, se_seeds=0.2, se_items=1.4), lower_is_better=True)
    assert "documents limit, not seeds: about 8,200 documents would show" in str(said)
    out_of_reach = told(-0.3, per_seed=(0.0,) * 5, se_seeds=0.2, se_items=1.4)
    assert "no number of documents within reach" in str(verdict(out_of_reach, lower_is_better=True))


def test_a_plan_made_from_two_seeds_is_not_trusted():
    two, three = (told(per_seed=(-1.9,) * seeds) for seeds in (2, 3))
    assert "poor guide" in verdict(two, lower_is_better=True).notes[-1]
    assert "poor guide" not in str(verdict(three, lower_is_better=True))


def test_one_seed_says_what_it_cannot_tell():
    found = told(-3.1, per_seed=(-3.1,), se_seeds=None)
    said = verdict(found, lower_is_better=True)
    assert said.sentence.startswith("this additive model is better than this dot model by 3.10 [")
    assert "these trained models, not the methods" in said.notes[0]


def test_an_end_near_nought_shows_its_side():
    half = stats.t.ppf(0.975, 4)
    found = told(half * 1.0004, per_seed=(0.0,) * 5, se_seeds=1.0, se_items=0.0)
    assert "[0.001, 5.554]" in verdict(found, lower_is_better=True).sentence


def test_equal_methods_and_thousands_are_written_too():
    zero = told(0.0, per_seed=(0.0,) * 3, se_seeds=0.0, se_items=0.0)
    assert "gave the very same figures" in str(verdict(zero, lower_is_better=True))
    by_chance = told(0.0, per_seed=(-1.0, 0.0, 1.0))
    assert "no difference is seen at all" in str(verdict(by_chance, lower_is_better=True))
    large = told(-1900.0, per_seed=(0.0,) * 5, se_seeds=1400.0)
    assert "a difference of 1,900" in str(verdict(large, lower_is_better=True))


@settings(max_examples=100, deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.floats(0, 1e6) | st.just(math.inf),
    st.floats(0, 1e6) | st.just(math.inf),
    st.integers(1, 6),
    st.sampled_from([1, 19, 20, 904]),
)
@example(1e-159, 0.0, 1.0, 2, 20)  # would take more items than a float can count
def test_there_is_always_a_sentence(value, by_seeds, by_items, seeds, n):
    known = {"se_seeds": by_seeds if seeds > 1 else None, "se_items": by_items}
    found = told(value, per_seed=(value,) * seeds, n=n, se_persistent=by_items, **known)
    said = verdict(found, lower_is_better=True)
    assert bool(said.better) == found.distinguishable
    assert " nan" not in str(said)


def test_a_seed_that_changes_nothing_is_asked_about():
    found = told(-3.1, per_seed=(-3.1,) * 9, se_seeds=0.0)
    assert "was the seed used" in str(verdict(found, lower_is_better=True))


def test_a_correction_is_told():
    [first, _] = holm([told(-9.0, per_seed=(0.0,) * 9), told(per_seed=(0.0,) * 9)])
    assert "one of 2 comparisons, corrected by Holm" in str(verdict(first, lower_is_better=True))


def test_few_items_are_said_to_be_few():
    found = told(n=1, se_items=math.inf)
    assert "1 document is too few" in str(verdict(found, lower_is_better=True))
