from dataclasses import replace

import numpy as np
import pytest
from benchmarks.calibration.groups import GroupedSimulation, without_groups
from benchmarks.calibration.simulation import detection_rate
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.wording import says

from regard.core.errors import UserError
from regard.evaluation.statistics.baseline_verdict import too_few_items
from regard.evaluation.statistics.item_groups import (
    MIN_GROUPS,
    count_groups,
    effective_groups,
    group_numbers,
    sum_by_group,
)
from regard.evaluation.statistics.seed_tables import SeedTables, ratio
from regard.evaluation.statistics.significance import method_difference
from regard.evaluation.statistics.verdict import verdict
from regard.studies.seed_spread import seed_spread

SEED = st.integers(0, 2**32 - 1)
LABELS = st.lists(st.none() | st.sampled_from("abcdef"), min_size=2, max_size=30)


def tables(scores, groups=None, *, variant="a"):
    """Tables of (s, n) scores, whose `ratio` is the mean."""
    scores = np.asarray(scores, dtype=float)
    return SeedTables(
        variant=variant,
        seeds=tuple(range(len(scores))),
        statistics=np.stack([scores, np.ones_like(scores)], axis=1),
        splits=("dev:1",) * len(scores),
        groups=groups,
    )


def study(seed=0, *, seeds=3, labels, planted=0.0):
    generator = np.random.default_rng(seed)
    groups, shape = group_numbers(labels), (seeds, len(labels))
    return (
        tables(generator.normal(size=shape) + planted, groups),
        tables(generator.normal(size=shape), groups, variant="b"),
    )


class TestNumbers:
    def test_by_hand(self):
        groups = group_numbers(["x", None, "y", "x", None])
        assert groups.tolist() == [0, 1, 2, 0, 3]
        assert count_groups(groups) == 4
        assert effective_groups(groups) == pytest.approx(25 / 7)
        assert sum_by_group(np.arange(5.0)[None], groups).tolist() == [[3, 1, 2, 4]]

    def test_items_that_stand_alone_have_no_groups(self):
        assert group_numbers([None] * 3) is None
        assert group_numbers("abc") is None
        assert (count_groups(None), effective_groups(None)) == (None, None)

    @given(LABELS)
    def test_each_group_is_summed_once(self, labels):
        groups = group_numbers(labels)
        values = np.arange(1.0, len(labels) + 1)
        sums = sum_by_group(values, groups)
        assert sums.sum() == values.sum()
        alone = labels.count(None)
        assert len(sums) == alone + len({label for label in labels if label is not None})


class TestDifference:
    def test_groups_of_one_size_are_a_t_test_over_their_means(self):
        labels = [item // 5 for item in range(60)]
        a, b = study(seeds=1, labels=labels, planted=0.4)
        found = method_difference(a, b, ratio)
        means = (a.statistics - b.statistics)[0, 0].reshape(12, 5).mean(axis=1)
        expected = stats.ttest_1samp(means, 0.0)
        assert (found.n, found.groups, found.degrees_of_freedom) == (60, 12, pytest.approx(11))
        assert found.p == pytest.approx(expected.pvalue)
        assert found.low == pytest.approx(expected.confidence_interval(0.95).low)

    def test_degrees_of_freedom_follow_the_smaller_of_seeds_and_groups(self):
        labels = [item // 5 for item in range(60)]
        few_seeds, many_seeds = (study(seeds=seeds, labels=labels) for seeds in (4, 20))
        assert method_difference(*few_seeds, ratio).degrees_of_freedom == 3
        assert method_difference(*many_seeds, ratio).degrees_of_freedom == pytest.approx(11)

    @settings(max_examples=40, deadline=None)
    @given(SEED, st.integers(1, 4), st.integers(2, 25))
    def test_groups_of_one_item_change_nothing(self, seed, seeds, n):
        grouped, alone = (
            method_difference(*study(seed, seeds=seeds, labels=labels), ratio)
            for labels in ([f"author {item}" for item in range(n)], [None] * n)
        )
        assert grouped == alone

    @settings(max_examples=40, deadline=None)
    @given(SEED, st.integers(1, 4), LABELS)
    def test_order_of_items_does_not_matter(self, seed, seeds, labels):
        pair = study(seed, seeds=seeds, labels=labels)
        order = np.random.default_rng(seed).permutation(len(labels))
        shuffled = [
            replace(
                side,
                statistics=side.statistics[:, :, order],
                groups=group_numbers([labels[item] or f"alone {item}" for item in order.tolist()]),
            )
            for side in pair
        ]
        one, other = (method_difference(*both, ratio) for both in (pair, shuffled))
        assert other.groups == one.groups
        assert other.p == pytest.approx(one.p)
        assert (other.value, other.se) == (pytest.approx(one.value), pytest.approx(one.se))

    @settings(max_examples=40, deadline=None)
    @given(SEED, st.integers(1, 4), st.integers(2, 25), st.integers(2, 6))
    def test_copies_in_one_group_tell_nothing_new(self, seed, seeds, n, copies):
        pair = study(seed, seeds=seeds, labels=[None] * n)
        groups = group_numbers([item // copies for item in range(n * copies)])
        copied = [
            replace(side, statistics=side.statistics.repeat(copies, axis=2), groups=groups)
            for side in pair
        ]
        once, often = (method_difference(*both, ratio) for both in (pair, copied))
        assert (often.n, often.groups) == (n * copies, n)
        assert (often.low, often.high) == (pytest.approx(once.low), pytest.approx(once.high))

    def test_other_groups_are_refused(self):
        a, b = study(labels=list("aabbcc"))
        for groups in (None, group_numbers("aaabbb")):
            with pytest.raises(UserError, match="grouped otherwise"):
                method_difference(a, replace(b, groups=groups), ratio)

    def test_spread_of_one_method_is_over_groups(self):
        scores = np.repeat(np.random.default_rng(0).normal(size=(4, 12)), 5, axis=1)
        grouped = seed_spread(tables(scores, group_numbers([i // 5 for i in range(60)])), ratio)
        alone, once = seed_spread(tables(scores), ratio), seed_spread(tables(scores[:, ::5]), ratio)
        assert (grouped.n, grouped.groups) == (60, 12)
        assert (grouped.low, grouped.high) == (pytest.approx(once.low), pytest.approx(once.high))
        assert grouped.high - grouped.low > 1.1 * (alone.high - alone.low)


class TestVerdict:
    @pytest.mark.parametrize("seeds", [1, 5])
    def test_few_groups_are_never_distinguishable(self, seeds):
        few, enough = (
            verdict(
                method_difference(
                    *study(seeds=seeds, labels=[item % groups for item in range(200)], planted=3.0),
                    ratio,
                ),
                lower_is_better=False,
            )
            for groups in (MIN_GROUPS - 1, MIN_GROUPS)
        )
        assert (few.better, enough.better) == ("", "a")
        assert says(str(few), "9 groups", "too few", "it takes 10")
        assert says(enough.sentence, "n = 200 in 10 groups")

    def test_where_groups_limit_the_plan_is_in_groups(self):
        generator = np.random.default_rng(1)
        groups = group_numbers([item // 10 for item in range(300)])
        by_group = 1.0 + 3 * generator.normal(size=30)[groups]
        a = tables(by_group + 0.01 * generator.normal(size=(5, 300)), groups)
        b = tables(np.zeros((5, 300)), groups, variant="b")
        found = method_difference(a, b, ratio)
        assert says(str(verdict(found, lower_is_better=False)), "groups limit, not seeds")
        assert found.units_needed(0.5 * found.min_detectable) == pytest.approx(4 * 30, rel=0.05)

    def test_items_are_counted_before_groups(self):
        assert "19 rows" in too_few_items(19, "rows", groups=3)
        assert "1 group is" in too_few_items(20, "rows", groups=1)
        assert not too_few_items(20, "rows", groups=None)


@pytest.mark.parametrize(
    "condition",
    [
        {"seeds": 1, "size": 5, "correlation": 0.8},
        {"seeds": 10, "size": 20, "correlation": 0.8},
        {"seeds": 1, "size": 20, "correlation": 0.5, "is_unequal": True},
    ],
    ids=str,
)
def test_equal_methods_on_groups_are_found_to_differ_in_at_most_6_percent(condition):
    simulation = GroupedSimulation(**condition, is_right_or_wrong=True)
    assert detection_rate(simulation.studies(1000), ratio) <= 0.06 + 0.013  # two standard errors
    assert detection_rate(without_groups(simulation.studies(150)), ratio) > 0.15
