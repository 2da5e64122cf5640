"""The word overfitting stands only where dev is worse than train."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.health.overfitting import FitVerdict, LossLevel, document_loss_gap


def split(loss: float, *, n: int = 400, seed: int = 0, spread: float = 0.3) -> SimpleNamespace:
    """Generated documents whose loss a token is `loss` in the mean."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(5, 60, n)
    return SimpleNamespace(nll=tokens * generator.normal(loss, spread, n), tokens=tokens)


def test_dev_worse_than_train() -> None:
    gap = document_loss_gap(split(5.0), split(5.4, seed=1))
    assert gap.fit is FitVerdict.OVERFITTING
    assert "dev is worse than train" in gap.sentence
    assert "overfitting" in gap.sentence
    assert "n = 400 and 400 documents" in gap.sentence
    low, high = gap.interval
    assert low < 0.4 < high


def test_train_worse_than_dev_is_never_called_overfitting() -> None:
    # Train perplexity 401, dev 381: named overfitting in the coursework that SPEC tells of.
    gap = document_loss_gap(split(np.log(401), spread=0.1), split(np.log(381), seed=1, spread=0.1))
    assert gap.fit is FitVerdict.DEV_EASIER
    assert "overfitting" not in gap.sentence
    assert "train is worse than dev" in gap.sentence


def test_within_the_interval_they_are_alike() -> None:
    gap = document_loss_gap(split(5.0, spread=1.0), split(5.01, seed=1, spread=1.0))
    assert gap.fit is FitVerdict.ALIKE
    assert gap.sentence.startswith("train and dev are alike")
    assert "overfitting" not in gap.sentence


def test_few_documents_tell_nothing() -> None:
    gap = document_loss_gap(split(5.0), split(9.0, n=19, seed=1))
    assert gap.fit is FitVerdict.TOO_FEW
    assert "overfitting" not in gap.sentence
    assert document_loss_gap(split(5.0, n=1), split(9.0, n=1)).fit is FitVerdict.TOO_FEW


def test_the_standard_error_is_that_of_repeated_draws() -> None:
    drawn = [LossLevel.of_documents(split(5.0, seed=seed)) for seed in range(300)]
    told = np.mean([level.error for level in drawn])
    assert told == pytest.approx(np.std([level.loss for level in drawn]), rel=0.15)


def test_as_dict_holds_what_the_sentence_says() -> None:
    table = document_loss_gap(split(5.0), split(5.4, seed=1)).as_dict()
    assert table["low"] < table["gap"] < table["high"]
    assert table["n"] == {"train": 400, "dev": 400}


@given(st.floats(1, 8), st.floats(1, 8))
def test_swapping_the_parts_turns_the_gap(one: float, other: float) -> None:
    a, b = split(one), split(other, seed=1)
    forward, backward = document_loss_gap(a, b), document_loss_gap(b, a)
    assert forward.value == pytest.approx(-backward.value)
    assert forward.interval == pytest.approx(tuple(-end for end in backward.interval[::-1]))
    assert not (forward.fit is FitVerdict.OVERFITTING and backward.fit is FitVerdict.OVERFITTING)
