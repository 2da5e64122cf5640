import json

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.data.tokenizers import TOKENIZERS
from regard.data.tokenizers.advice import advise, same_kind, saved_fraction
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.word import Word

ENGLISH = [f"the quick brown fox number {i % 7} jumps over the lazy dog" for i in range(60)]
LATIN = [f"arma virumque cano troiae qui primus ab oris {i % 5}" for i in range(60)]


def test_tokenizer_of_another_language_should_be_retrained() -> None:
    advice = advise(
        Bpe(vocabulary=300).train(iter(LATIN)),
        train_texts=iter(ENGLISH),
        held_out=ENGLISH[:20],
    )
    assert advice.retrain
    assert advice.fresh.fertility < advice.existing.fertility
    assert advice.documents == 20
    assert advice.existing.words == sum(len(text.split()) for text in ENGLISH[:20])
    assert advice.saving_interval[0] <= advice.saving <= advice.saving_interval[1]
    for number in ("20 held-out documents", "220 words", f"{advice.existing.fertility:.2f}"):
        assert number in advice.sentence
    json.dumps(advice.as_dict())


def test_tokenizer_of_the_same_text_is_kept() -> None:
    existing = Bpe(vocabulary=300).train(iter(ENGLISH))
    advice = advise(existing, train_texts=iter(ENGLISH), held_out=ENGLISH[:20])
    assert not advice.retrain
    assert advice.saving == 0
    assert advice.sentence.startswith("Keep bpe")


def test_unknown_words_alone_justify_retraining() -> None:
    existing = Word().train(iter(LATIN))
    advice = advise(existing, train_texts=iter(ENGLISH), held_out=ENGLISH[:20])
    assert advice.saving == 0  # both have one token per word
    assert advice.existing.unknown_rate > 0.8
    assert advice.fresh.unknown_rate < 0.05
    assert advice.retrain


def test_unfillable_vocabulary_is_compared_at_the_size_the_text_fills() -> None:
    existing = Bpe(vocabulary=300).train(iter(LATIN))
    advice = advise(existing, train_texts=iter(["ab ab"]), held_out=["ab"])
    assert advice.fresh.size < 300
    assert advice.saving_interval is None  # one document


@pytest.mark.parametrize("name", ["bpe", "wordpiece", "unigram", "word", "character"])
def test_same_kind_detects_the_kind(name: str) -> None:
    tokenizer = TOKENIZERS.get(name).part().train(iter(ENGLISH))
    kind = same_kind(tokenizer)
    assert type(kind) is TOKENIZERS.get(name).part
    assert getattr(kind, "vocabulary", tokenizer.size) == tokenizer.size


def test_same_kind_detects_character_level_bpe() -> None:
    assert not same_kind(Bpe(bytes=False).train(iter(ENGLISH))).bytes


def test_saved_fraction_is_a_ratio_of_sums() -> None:
    saving, interval = saved_fraction(np.array([10, 30]), np.array([5, 15]))
    assert saving == pytest.approx(0.5)
    assert interval == pytest.approx((0.5, 0.5))


def test_interval_coverage_is_about_95_percent() -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        existing = generator.poisson(50, size=200) + 1
        fresh = generator.binomial(existing, 0.7)
        _, (low, high) = saved_fraction(existing, fresh)
        covered += low <= 0.3 <= high
    assert 0.91 < covered / 400 < 0.985


def test_blank_held_out_text_is_refused() -> None:
    existing = Bpe(vocabulary=300).train(iter(ENGLISH))
    with pytest.raises(UserError, match="no words to compare"):
        advise(existing, train_texts=iter(ENGLISH), held_out=[" "])
