import numpy as np
import pytest

from regard.core.errors import UserError
from regard.evaluation.baselines.tfidf_ridge import NAME, TfidfRidge

GENERATOR = np.random.default_rng(0)
WORDS = {"great": 2.0, "fine": 1.0, "dull": -1.0, "poor": -2.0}
CHOSEN = [GENERATOR.choice([*WORDS], 3).tolist() for _ in range(120)]
TEXTS = [f"we saw a {' and '.join(words)} film" for words in CHOSEN]
SCORES = [sum(WORDS[word] for word in words) for words in CHOSEN]


def test_it_learns_what_words_are_worth():
    ridge = TfidfRidge(TEXTS[:90], SCORES[:90])
    assert np.corrcoef(ridge.predict(TEXTS[90:]), SCORES[90:])[0, 1] > 0.9
    assert ridge.label.startswith(f"{NAME}, alpha = ")


def test_it_is_deterministic_and_keeps_the_unit():
    one, other = (TfidfRidge(TEXTS[:90], SCORES[:90]) for _ in range(2))
    assert one.predict(TEXTS) == other.predict(TEXTS)
    shifted = TfidfRidge(TEXTS[:90], [score + 100 for score in SCORES[:90]])
    assert shifted.predict(TEXTS[:3]) == pytest.approx([x + 100 for x in one.predict(TEXTS[:3])])


def test_without_words_it_predicts_the_mean():
    assert TfidfRidge(["", " "], [1.0, 3.0]).predict(["any"]) == [2.0]
    assert TfidfRidge(["good"], [4.0]).predict(["bad", "good"])[0] == pytest.approx(4.0)
    with pytest.raises(UserError, match="do not match"):
        TfidfRidge(["a"], [])
