import math
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from tests.wording import says

from regard.evaluation.statistics.holm import holm
from regard.evaluation.statistics.significance import MethodDifference
from regard.evaluation.statistics.verdict import NOT_DISTINGUISHABLE, verdict


def make_difference(value=-1.9, *, per_seed=(-1.0, -2.8), n=904, **errors):
    errors = {"se_seeds": 1.4, "se_items": 0.5, "se_persistent": 0.3} | errors
    return MethodDifference(a="additive", b="dot", value=value, per_seed=per_seed, n=n, **errors)


def test_better_variant_follows_lower_is_better():
    difference = make_difference(-3.1, se_seeds=0.1, se_items=0.1, per_seed=(-3.1,) * 5)
    judged = verdict(difference, lower_is_better=True)
    facts = ("additive", "better than dot", "3.10 [2.71, 3.49]", "n = 904", "seeds = 5")
    assert says(judged.sentence, *facts)
    assert not judged.notes
    assert verdict(difference, lower_is_better=False).better == "dot"
    assert verdict(replace(difference, value=3.1), lower_is_better=True).better == "dot"


def test_not_distinguishable_says_how_many_seeds_it_takes():
    judged = verdict(make_difference(per_seed=(-1.9,) * 5), lower_is_better=True)
    assert judged.sentence == NOT_DISTINGUISHABLE
    assert judged.better == ""
    observed, plan, power = judged.notes
    assert says(observed, "additive − dot", "−1.9 [−6.0, +2.2]", "n = 904", "seeds = 5")
    assert says(plan, "seeds limit, not documents", "about 32 seeds", "difference of 1.9")
    assert says(power, "at this size", "5.6", "four times in five")


def test_where_items_limit_the_plan_is_in_items():
    judged = verdict(
        make_difference(per_seed=(-1.9,) * 5, se_seeds=0.2, se_items=1.4), lower_is_better=True
    )
    assert says(str(judged), "documents limit, not seeds", "about 8,200 documents")
    out_of_reach = make_difference(-0.3, per_seed=(0.0,) * 5, se_seeds=0.2, se_items=1.4)
    assert "no feasible number of documents" in str(verdict(out_of_reach, lower_is_better=True))


def test_plan_from_two_seeds_has_a_caveat():
    two, three = (make_difference(per_seed=(-1.9,) * seeds) for seeds in (2, 3))
    assert "poor guide" in verdict(two, lower_is_better=True).notes[-1]
    assert "poor guide" not in str(verdict(three, lower_is_better=True))


def test_one_seed_is_about_trained_models_only():
    difference = make_difference(-3.1, per_seed=(-3.1,), se_seeds=None)
    judged = verdict(difference, lower_is_better=True)
    assert says(judged.sentence, "this additive model", "better than this dot model", "3.10 [")
    assert "these trained models, not the methods" in judged.notes[0]


def test_bound_near_zero_shows_its_sign():
    half = stats.t.ppf(0.975, 4)
    difference = make_difference(half * 1.0004, per_seed=(0.0,) * 5, se_seeds=1.0, se_items=0.0)
    assert "[0.001, 5.554]" in verdict(difference, lower_is_better=True).sentence


def test_zero_differences_and_thousands():
    zero = make_difference(0.0, per_seed=(0.0,) * 3, se_seeds=0.0, se_items=0.0)
    assert "have exactly the same scores" in str(verdict(zero, lower_is_better=True))
    by_chance = make_difference(0.0, per_seed=(-1.0, 0.0, 1.0))
    assert "the observed difference is zero" in str(verdict(by_chance, lower_is_better=True))
    large = make_difference(-1900.0, per_seed=(0.0,) * 5, se_seeds=1400.0)
    assert "a difference of 1,900" in str(verdict(large, lower_is_better=True))


@given(
    st.floats(-1e6, 1e6),
    st.floats(0, 1e6) | st.just(math.inf),
    st.floats(0, 1e6) | st.just(math.inf),
    st.integers(1, 6),
    st.sampled_from([1, 19, 20, 904]),
)
@example(1e-159, 0.0, 1.0, 2, 20)  # the number of items needed overflows
def test_every_difference_has_a_sentence(value, by_seeds, by_items, seeds, n):
    errors = {"se_seeds": by_seeds if seeds > 1 else None, "se_items": by_items}
    difference = make_difference(
        value, per_seed=(value,) * seeds, n=n, se_persistent=by_items, **errors
    )
    judged = verdict(difference, lower_is_better=True)
    assert bool(judged.better) == difference.distinguishable
    assert " nan" not in str(judged)


def test_equal_differences_question_the_seed():
    difference = make_difference(-3.1, per_seed=(-3.1,) * 9, se_seeds=0.0)
    assert "was the seed used" in str(verdict(difference, lower_is_better=True))


def test_holm_correction_is_in_the_notes():
    [first, _] = holm(
        [make_difference(-9.0, per_seed=(0.0,) * 9), make_difference(per_seed=(0.0,) * 9)]
    )
    assert "one of 2 comparisons, corrected by Holm" in str(verdict(first, lower_is_better=True))


def test_few_items_are_named():
    difference = make_difference(n=1, se_items=math.inf)
    assert "1 document is too few" in str(verdict(difference, lower_is_better=True))
