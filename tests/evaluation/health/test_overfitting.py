"""The train-dev gap: overfitting is reported only where dev is worse than train."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.health.overfitting import FitVerdict, LossGap, LossLevel
from regard.runs.health_record import TrainDevGapRecord


def losses(loss: float, *, n: int = 400, seed: int = 0, spread: float = 0.3) -> LossLevel:
    """Documents with a mean loss per token of `loss`."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(5, 60, n)
    return LossLevel.of_documents(tokens * generator.normal(loss, spread, n), tokens)


def test_dev_worse_than_train() -> None:
    gap = LossGap(losses(5.0), losses(5.4, seed=1))
    assert gap.fit is FitVerdict.OVERFITTING
    assert "dev is worse than train" in gap.sentence
    assert "overfitting" in gap.sentence
    assert "n = 400 and 400 documents" in gap.sentence
    low, high = gap.interval
    assert low < 0.4 < high


def test_a_model_behind_a_trivial_baseline_is_not_called_overfitting() -> None:
    gap = LossGap(losses(5.0), losses(5.4, seed=1), ahead="unigram")
    assert gap.fit is FitVerdict.LEARNED_LITTLE
    assert "dev is worse than train" in gap.sentence
    assert "unigram" in gap.sentence
    assert "overfitting" not in gap.sentence
    easier = LossGap(losses(5.4), losses(5.0, seed=1), ahead="unigram")
    assert easier.fit is FitVerdict.DEV_EASIER


def test_train_worse_than_dev_is_never_called_overfitting() -> None:
    # Train perplexity 401, dev 381: a coursework called this overfitting.
    gap = LossGap(losses(np.log(401), spread=0.1), losses(np.log(381), seed=1, spread=0.1))
    assert gap.fit is FitVerdict.DEV_EASIER
    assert "overfitting" not in gap.sentence
    assert "train is worse than dev" in gap.sentence


def test_gap_within_the_interval_is_alike() -> None:
    gap = LossGap(losses(5.0, spread=1.0), losses(5.01, seed=1, spread=1.0))
    assert gap.fit is FitVerdict.ALIKE
    assert gap.sentence.startswith("train and dev are alike")
    assert "overfitting" not in gap.sentence


def test_few_documents_give_no_verdict() -> None:
    gap = LossGap(losses(5.0), losses(9.0, n=19, seed=1))
    assert gap.fit is FitVerdict.TOO_FEW
    assert "overfitting" not in gap.sentence
    assert LossGap(losses(5.0, n=1), losses(9.0, n=1)).fit is FitVerdict.TOO_FEW


def test_standard_error_equals_that_of_repeated_draws() -> None:
    levels = [losses(5.0, seed=seed) for seed in range(300)]
    estimated = np.mean([level.error for level in levels])
    assert estimated == pytest.approx(np.std([level.loss for level in levels]), rel=0.15)


class TestGroups:
    def grouped(self, loss: float, *, groups: int, size: int, seed: int = 0) -> LossLevel:
        """Rows whose loss is that of their group."""
        by_group = np.random.default_rng(seed).normal(loss, 0.5, groups)
        numbers = np.repeat(np.arange(groups), size)
        return LossLevel.of_rows(by_group[numbers], groups=numbers)

    def test_copies_in_one_group_tell_nothing_new(self) -> None:
        copies, once = self.grouped(5.0, groups=30, size=8), self.grouped(5.0, groups=30, size=1)
        assert (copies.n, copies.groups, once.n) == (240, 30, 30)
        assert copies.error == pytest.approx(once.error)

    def test_a_gap_between_few_groups_is_within_their_variance(self) -> None:
        by_group = np.linspace(4.4, 5.6, 12)
        rows = np.repeat([by_group, by_group + 0.2], 40, axis=1)
        numbers = np.repeat(np.arange(12), 40)
        grouped = LossGap(*(LossLevel.of_rows(row, groups=numbers) for row in rows))
        independent = LossGap(*map(LossLevel.of_rows, rows))
        assert independent.fit is FitVerdict.OVERFITTING
        assert grouped.fit is FitVerdict.ALIKE
        assert "480 in 12 groups and 480 documents in 12 groups" in grouped.sentence

    def test_few_groups_give_no_verdict(self) -> None:
        dev = self.grouped(9.0, groups=9, size=10, seed=1)
        assert LossGap(losses(5.0), dev).fit is FitVerdict.TOO_FEW


def test_record_has_gap_interval_and_n() -> None:
    record = TrainDevGapRecord.of_gap(LossGap(losses(5.0), losses(5.4, seed=1)))
    assert record.low < record.gap < record.high
    assert record.n == {"train": 400, "dev": 400}


@given(st.floats(1, 8), st.floats(1, 8))
def test_swapping_the_splits_flips_the_gap(one: float, other: float) -> None:
    a, b = losses(one), losses(other, seed=1)
    forward, backward = LossGap(a, b), LossGap(b, a)
    assert forward.value == pytest.approx(-backward.value)
    assert forward.interval == pytest.approx(tuple(-end for end in backward.interval[::-1]))
    assert not (forward.fit is FitVerdict.OVERFITTING and backward.fit is FitVerdict.OVERFITTING)
