"""Properties of every metric in the catalogue, on the example rows it declares."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.evaluation.metrics.metric import METRICS, Metric, build_metric, is_lower_better
from regard.evaluation.metrics.scoring import paired_difference, score
from regard.evaluation.statistics.baseline_verdict import difference_verdict
from regard.evaluation.statistics.intervals import Bootstrap

FEW_RESAMPLES = Bootstrap(resamples=80)
SPLIT = "dev:77abf00d"


def metric_of(name: str) -> Metric:
    entry = METRICS.get(name)
    return entry.part(**entry.properties["settings"])


def numbered(rows):
    return [{**row, "item": item} for item, row in enumerate(rows)]


def scores_of(metric: Metric, rows, *, split: str = SPLIT):
    return score(metric, rows, split=split, bootstrap=FEW_RESAMPLES)


@st.composite
def answered_rows(draw: st.DrawFn, name: str):
    """Up to nine items, each with its perfect or its bad answer."""
    sides = [METRICS.get(name).properties[side] for side in ("perfect", "bad")]
    chosen = draw(
        st.lists(
            st.tuples(st.integers(0, len(sides[0]) - 1), st.booleans()), min_size=1, max_size=9
        )
    )
    return numbered(sides[is_bad][item] for item, is_bad in chosen)


@pytest.mark.parametrize("name", METRICS.names())
class TestEveryMetric:
    def test_is_documented_and_knows_its_name(self, name):
        assert METRICS.get(name).summary
        assert metric_of(name).kind == name

    def test_perfect_and_bad_rows_are_of_the_same_items(self, name):
        """A difference pairs them: every score that counts all items can be compared."""
        properties, metric = METRICS.get(name).properties, metric_of(name)
        perfect, bad = (numbered(properties[side]) for side in ("perfect", "bad"))
        main = metric.score_names[0]
        better = paired_difference(
            metric, main, perfect, bad, split=SPLIT, bootstrap=FEW_RESAMPLES
        ).value
        assert (better > 0) == metric.higher_is_better(main)
        assert better != 0

    def test_direction_and_bounds_are_right(self, name):
        """Perfect answers reach the best bound, bad ones do not; no interval exceeds a bound."""
        properties, metric = METRICS.get(name).properties, metric_of(name)
        found = {}
        for side in ("perfect", "bad"):
            for estimate in scores_of(metric, numbered(properties[side])):
                low, high = metric.bounds(estimate.name)
                for value in (estimate.value, estimate.low, estimate.high):
                    assert value is None or low - 1e-9 <= value <= high + 1e-9
                found[side, estimate.name] = estimate.value
        for score_name in metric.score_names:
            low, high = metric.bounds(score_name)
            higher = metric.higher_is_better(score_name)
            best = high if higher else low
            assert found["perfect", score_name] == pytest.approx(best, abs=1e-9)
            loss = found["perfect", score_name] - found["bad", score_name]
            assert (loss if higher else -loss) > 1e-6, score_name

    def test_a_score_has_one_direction_in_all_metrics(self, name):
        metric = metric_of(name)
        for score_name in metric.score_names:
            assert metric.higher_is_better(score_name) == (not is_lower_better(score_name))

    def test_declared_scores_exist(self, name):
        metric = metric_of(name)
        assert {*metric.lower_is_better, *metric.score_bounds} <= {*metric.score_names}
        assert len({*metric.score_names}) == len(metric.score_names) >= 1

    def test_settings_round_trip_through_json(self, name):
        metric = metric_of(name)
        assert build_metric(json.loads(json.dumps(metric.settings()))) == metric

    def test_estimates_carry_n_interval_and_signature(self, name):
        metric = metric_of(name)
        rows = numbered(METRICS.get(name).properties["bad"])
        estimates = scores_of(metric, rows)
        assert [estimate.name for estimate in estimates] == list(metric.score_names)
        table = metric.statistics(rows)
        for estimate in estimates:
            index = metric.count_index(estimate.name)
            assert estimate.n == (len(rows) if index is None else (table[index] > 0).sum())
            assert estimate.items == metric.items
            assert estimate.signature.startswith(f"{estimate.name}|metric:{name}|split:{SPLIT}|")
            assert "|interval:" in estimate.signature
            if estimate.n > 1:
                assert estimate.low <= estimate.value <= estimate.high
            else:
                assert estimate.no_interval or metric.is_proportion(estimate.name)

    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def test_score_is_the_score_function_of_the_sums(self, name, data):
        metric, rows = metric_of(name), data.draw(answered_rows(name))
        table = metric.statistics(rows)
        assert table.shape[1] == len(rows)
        sums = table.sum(axis=1)
        many = np.repeat(sums[:, None, None], 6, axis=1).repeat(2, axis=2)
        for estimate in scores_of(metric, rows):
            function = metric.score_function(estimate.name)
            assert estimate.value == pytest.approx(float(function(sums)))
            assert np.isfinite([estimate.value, estimate.low or 0, estimate.high or 0]).all()
            # Score functions broadcast over trailing axes.
            assert function(many).shape == (6, 2)
            assert function(many) == pytest.approx(np.full((6, 2), estimate.value))

    @settings(max_examples=25, deadline=None)
    @given(st.data(), st.randoms(use_true_random=False))
    def test_item_order_has_no_influence(self, name, data, random):
        metric, rows = metric_of(name), data.draw(answered_rows(name))
        shuffled = random.sample(rows, len(rows))
        assert scores_of(metric, shuffled) == scores_of(metric, rows)

    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def test_statistics_are_additive_over_splits_of_the_items(self, name, data):
        """The table of all items is that of any two parts side by side, where items are declared
        independent of each other."""
        metric, rows = metric_of(name), data.draw(answered_rows(name))
        if not metric.has_independent_items or len(rows) < 2:
            return
        middle = data.draw(st.integers(1, len(rows) - 1))
        parts = [metric.statistics(part) for part in (rows[:middle], rows[middle:])]
        assert np.array_equal(np.concatenate(parts, axis=1), metric.statistics(rows))

    def test_dependent_items_are_declared(self, name):
        metric, rows = metric_of(name), numbered(METRICS.get(name).properties["bad"])
        alone = np.concatenate([metric.statistics([row]) for row in rows], axis=1)
        together = metric.statistics(rows)
        assert np.array_equal(alone, together) == metric.has_independent_items

    @settings(max_examples=15, deadline=None)
    @given(st.data())
    def test_groups_of_one_item_change_nothing(self, name, data):
        metric, rows = metric_of(name), data.draw(answered_rows(name))
        alone = [{**row, "group": f"group {row['item']}"} for row in rows]
        assert scores_of(metric, alone) == scores_of(metric, rows)

    def test_copies_of_items_tell_nothing_new(self, name):
        """Each item three times, as a group, has the interval of its items or a wider one."""
        metric, sides = metric_of(name), METRICS.get(name).properties
        cycle = [*sides["perfect"], *sides["bad"]]
        once = numbered((cycle * 15)[:30])
        copied = numbered({**row, "group": row["item"]} for row in once for _ in range(3))
        for estimate, with_copies in zip(
            scores_of(metric, once), scores_of(metric, copied), strict=True
        ):
            assert (with_copies.n, with_copies.groups) == (3 * estimate.n, estimate.n)
            assert with_copies.value == pytest.approx(estimate.value, abs=0.02)
            width = estimate.high - estimate.low
            assert with_copies.high - with_copies.low >= 0.9 * width
            naive = next(
                one
                for one in scores_of(metric, numbered([{**row, "group": None} for row in copied]))
                if one.name == estimate.name
            )
            assert naive.high - naive.low < 0.8 * width or width == 0

    def test_few_groups_give_no_verdict(self, name):
        metric, sides = metric_of(name), METRICS.get(name).properties
        main = metric.score_names[0]
        ours, theirs = (
            numbered({**row, "group": number % 9} for number, row in enumerate([*sides[side]] * 20))
            for side in ("perfect", "bad")
        )
        found = paired_difference(metric, main, ours, theirs, split=SPLIT, bootstrap=FEW_RESAMPLES)
        better = difference_verdict(found, higher_is_better=metric.higher_is_better(main))
        assert (found.groups, better) == (9, "on too few items to compare with")

    @settings(max_examples=15, deadline=None)
    @given(st.data())
    def test_difference_of_a_model_with_itself_is_zero(self, name, data):
        metric, rows = metric_of(name), data.draw(answered_rows(name))
        for estimate in scores_of(metric, rows):
            found = paired_difference(
                metric, estimate.name, rows, rows[::-1], split=SPLIT, bootstrap=FEW_RESAMPLES
            )
            assert found.value == 0
            assert (found.low, found.high) in {(0, 0), (None, None)}
            verdict = difference_verdict(found, higher_is_better=True)
            assert verdict not in {"better than", "behind"}
