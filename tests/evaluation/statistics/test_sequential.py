"""Planned looks: published boundaries, 5 % in all, Holm over variants, the chance to go on."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.wording import says

from regard.evaluation.statistics.holm import holm, holm_at_looks
from regard.evaluation.statistics.looks import wrong_verdict_rate
from regard.evaluation.statistics.sequential import Interim, LookPlan, PlannedLook, chance_to_differ
from regard.evaluation.statistics.significance import MethodDifference
from regard.evaluation.statistics.verdict import NOT_DISTINGUISHABLE, NOT_YET, verdict

PLAN = LookPlan((3, 5, 8, 12))
PLANS = (PLAN, LookPlan((3, 5, 8, 12), "obrien-fleming"), LookPlan((5, 10)))
PUBLISHED = {
    "pocock": {2: 2.178, 3: 2.289, 4: 2.361, 5: 2.413},
    "obrien-fleming": {2: 1.977, 3: 2.004, 4: 2.024, 5: 2.040},
}
"Jennison and Turnbull (2000), tables 2.1 and 2.3, two-sided 5 %: c of the last look."


def difference_of(*per_seed, look=None, se_items=0.0, n=900, name="additive"):
    values = np.array(per_seed, dtype=float)
    return MethodDifference(
        a=name,
        b="dot",
        value=float(values.mean()),
        per_seed=tuple(values.tolist()),
        se_seeds=float(values.std(ddof=1) / np.sqrt(len(values))),
        se_items=se_items,
        se_persistent=se_items,
        n=n,
        look=look,
    )


def at_look(index, *, plan=PLAN, t=3.0, **settings):
    """A difference whose t, over as many seeds as the plan has at this look, is t."""
    values = np.linspace(-1, 1, plan.seeds[index])
    values = values / values.std(ddof=1) + t / math.sqrt(len(values))
    return difference_of(*values, look=PlannedLook(plan, index), **settings)


class TestBoundary:
    @pytest.mark.parametrize("boundary", PUBLISHED)
    def test_with_many_seeds_it_is_the_published_constant(self, boundary):
        for looks, constant in PUBLISHED[boundary].items():
            plan = LookPlan(tuple(1000 * (look + 1) for look in range(looks)), boundary)
            alphas = np.array(plan.alphas(0.05))
            # Four standard errors of the simulated quantile.
            assert stats.norm.isf(alphas[-1] / 2) == pytest.approx(constant, abs=0.012)
            shape = np.sqrt(looks / np.arange(1, looks + 1)) ** (boundary != "pocock")
            assert stats.norm.isf(alphas / 2) == pytest.approx(constant * shape, abs=0.03)

    @pytest.mark.parametrize("plan", PLANS)
    def test_equal_methods_differ_at_any_look_in_5_percent(self, plan):
        generator = np.random.default_rng(7)
        differences = generator.standard_normal((40_000, plan.seeds[-1]))
        p = [stats.ttest_1samp(differences[:, :seeds], 0, axis=1).pvalue for seeds in plan.seeds]
        for alpha in (0.05, 0.05 / 6):
            found = (np.array(p) < np.array(plan.alphas(alpha))[:, None]).any(axis=0).mean()
            # Four standard errors of 40,000 studies.
            assert found == pytest.approx(alpha, abs=4 * math.sqrt(alpha / 40_000)), alpha
        levels = [1 - alpha for alpha in plan.alphas(0.05)]
        rate = wrong_verdict_rate([range(seeds) for seeds in plan.seeds], levels=levels)
        assert rate == pytest.approx(0.05, abs=0.003)

    def test_thresholds_are_t_values_of_the_levels(self):
        critical = np.array(PLAN.thresholds(0.05))
        found = 2 * stats.t.sf(critical, np.array(PLAN.seeds) - 1)
        assert found == pytest.approx(PLAN.alphas(0.05))
        assert list(critical) == sorted(critical, reverse=True)

    @settings(deadline=None)
    @given(
        st.sampled_from(PLANS),
        st.floats(1e-9, 0.5),
        st.floats(1e-9, 0.5),
        st.data(),
    )
    def test_overall_p_inverts_the_levels(self, plan, alpha, other, data):
        look = data.draw(st.integers(0, len(plan.seeds) - 1))
        assert plan.overall_p(plan.alphas(alpha)[look], look=look) == pytest.approx(alpha, rel=1e-6)
        lower, higher = sorted((alpha, other))
        assert plan.overall_p(lower, look=look) <= plan.overall_p(higher, look=look)
        assert plan.overall_p(higher, look=look) >= higher * (1 - 0.05)
        assert plan.alphas(lower)[look] <= plan.alphas(higher)[look] <= 1

    def test_certain_and_impossible_p(self):
        for plan in PLANS:
            assert plan.overall_p(0.0, look=0) == 0
            assert plan.overall_p(1.0, look=0) == 1

    @pytest.mark.parametrize("seeds", [(5,), (3, 3), (5, 3), (1, 3), ()])
    def test_what_is_no_plan_is_refused(self, seeds):
        with pytest.raises(ValueError, match="two looks or more"):
            LookPlan(seeds)


class TestHolm:
    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 3), st.floats(-9, 9)), min_size=1, max_size=5))
    def test_an_interval_excludes_0_where_the_adjusted_p_is_below_5_percent(self, drawn):
        judged = holm_at_looks([at_look(look, t=t) for look, t in drawn], comparisons=5)
        for one in judged:
            assert one.distinguishable == (one.p_adjusted < 0.05)
            assert 1 - one.level <= one.look.alpha(0.05) * (1 + 1e-9)

    def test_one_comparison_has_the_level_of_its_look(self):
        for look, alpha in enumerate(PLAN.alphas(0.05)):
            [judged] = holm_at_looks([at_look(look)], comparisons=1)
            assert judged.level == pytest.approx(1 - alpha)

    def test_a_decided_comparison_leaves_its_share_to_the_others(self):
        weak, strong = at_look(3, t=3.0), at_look(0, t=60.0, name="other")
        alone, _ = holm_at_looks([weak, at_look(0, t=0.1)], comparisons=2)
        beside, decided = holm_at_looks([weak, strong], comparisons=2)
        assert decided.distinguishable
        assert 1 - alone.level == pytest.approx(PLAN.alphas(0.025)[3])
        assert 1 - beside.level == pytest.approx(PLAN.alphas(0.05)[3])

    def test_comparisons_that_could_not_be_made_count(self):
        [judged] = holm_at_looks([at_look(3)], comparisons=3)
        assert 1 - judged.level == pytest.approx(PLAN.alphas(0.05 / 3)[3])

    def test_differences_without_a_look_are_refused(self):
        with pytest.raises(ValueError, match="no planned look"):
            holm_at_looks([at_look(0), difference_of(1, 2, 3)], comparisons=2)

    def test_sign_flips_decide_only_where_they_can_at_the_level_of_the_look(self):
        skewed = (1.0, 1.1, 0.9, 1.05, 0.95, 9.0)
        plan = LookPlan((6, 8, 12))
        assert difference_of(*skewed).p_sign_flips is not None
        assert difference_of(*skewed, look=PlannedLook(plan, 0)).p_sign_flips is None
        more = (*skewed, 1.0, 1.02)
        assert difference_of(*more, look=PlannedLook(plan, 1)).p_sign_flips == pytest.approx(2**-7)
        assert difference_of(*skewed, look=PlannedLook(plan, 0)).seeds_for_sign_flips == 7


class TestChance:
    def test_equals_a_simulation_seed_by_seed(self):
        values = np.array([0.4, 1.5, 0.9, -0.3, 1.1])
        interim = Interim(per_seed=values, se_items=0.2, se_persistent=0.1, units=900)
        found = chance_to_differ(interim, PlannedLook(PLAN, 1), alpha=0.05)
        generator, differs = np.random.default_rng(3), 0
        for _ in range(4000):
            std = values.std() * math.sqrt(5 / generator.chisquare(4))
            mean = generator.normal(values.mean(), std / math.sqrt(5))
            future = np.concatenate([values, generator.normal(mean, std, 7)])
            for seeds, critical in zip(PLAN.seeds[2:], PLAN.thresholds(0.05)[2:], strict=True):
                over_items = 0.1**2 + (0.2**2 - 0.1**2) * 5 / seeds
                se = math.sqrt(future[:seeds].var(ddof=1) / seeds + over_items)
                if abs(future[:seeds].mean()) > critical * se:
                    differs += 1
                    break
        assert found == pytest.approx(differs / 4000, abs=0.04)
        assert 0.2 < found < 0.9

    @pytest.mark.parametrize(
        ("value", "se_items", "low", "high"),
        [(0.0, 0.0, 0, 0.2), (30.0, 0.0, 0.99, 1), (1e200, 0.0, 0.99, 1), (0.2, 5.0, 0, 0.01)],
    )
    def test_extremes(self, value, se_items, low, high):
        spread = np.array([-0.5, 0.1, 0.4]) * max(1.0, value / 100)
        interim = Interim(
            per_seed=spread + value, se_items=se_items, se_persistent=se_items, units=9
        )
        assert low <= chance_to_differ(interim, PlannedLook(PLAN, 0), alpha=0.05) <= high
        assert chance_to_differ(interim, PlannedLook(PLAN, 3), alpha=0.05) == 0

    def test_the_same_scores_never_differ(self):
        interim = Interim(per_seed=[0.0] * 3, se_items=0.0, se_persistent=0.0, units=900)
        assert chance_to_differ(interim, PlannedLook(PLAN, 0), alpha=0.05) == 0


class TestVerdict:
    def test_between_looks_it_is_open_and_after_the_last_it_is_not(self):
        for look, sentence in ((0, NOT_YET), (2, NOT_YET), (3, NOT_DISTINGUISHABLE)):
            [difference] = holm_at_looks([at_look(look, t=0.5)], comparisons=1)
            judged = verdict(difference, lower_is_better=True)
            assert (judged.sentence, judged.better) == (sentence, "")
            notes = "; ".join(judged.notes)
            assert says(notes, f"look {look + 1} of 4, at {PLAN.seeds[look]} of 12 seeds", "1.6 %")
            assert says(notes, "four times in five")
            assert ("later look" in notes) == (look < 3)
            assert "would show" not in notes

    def test_a_decision_before_the_last_look_is_labelled(self):
        for look in (0, 3):
            [difference] = holm_at_looks([at_look(look, t=30.0)], comparisons=1)
            judged = verdict(difference, lower_is_better=False)
            assert judged.better == "additive"
            notes = "; ".join(judged.notes)
            assert ("too large on average" in notes) == (look == 0)
            assert ("decided at look 1 of 4" in notes) == (look == 0)

    def test_the_interval_is_wider_than_that_of_one_look(self):
        planned = at_look(1)
        [with_plan] = holm_at_looks([planned], comparisons=1)
        [alone] = holm([replace(planned, look=None)])
        assert with_plan.low < alone.low < alone.high < with_plan.high

    def test_the_power_of_a_plan_is_that_of_its_last_look(self):
        early = at_look(0, t=1.0)
        expected = replace(at_look(3, t=1.0), level=1 - PLAN.alphas(0.05)[3]).min_detectable
        # The same standard deviation of seeds, over 12 of them.
        assert early.detectable_by_plan() == pytest.approx(expected)
        assert replace(early, look=None).detectable_by_plan() is None
