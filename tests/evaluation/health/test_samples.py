"""Sample health: collapsed samples are flagged, real text is not."""

from dataclasses import asdict
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom
from tests.wording import says

from regard.evaluation.health.repetition import match_texts
from regard.evaluation.health.samples import SampleHealth, empty_p_value, sample_health
from regard.runs.health_record import SampleHealthRecord

VOCABULARY = 300
UNKNOWN = 7


def transitions(seed: int = 0) -> np.ndarray:
    """Cumulative transition probabilities of a language: few tokens follow each token."""
    generator = np.random.default_rng(seed)
    steps = generator.dirichlet(np.full(VOCABULARY, 0.02), size=VOCABULARY)
    return steps.cumsum(axis=1)


STEPS = transitions()


def real_texts(count: int, *, seed: int, length: int = 30) -> list[list[int]]:
    """Random texts of that language, of different lengths."""
    generator = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        token = int(generator.integers(VOCABULARY))
        ids = []
        for draw in generator.random(int(generator.integers(length // 2, length * 2))):
            token = min(int(np.searchsorted(STEPS[token], draw)), VOCABULARY - 1)
            ids.append(token)
        texts.append(ids)
    return texts


REFERENCE = real_texts(300, seed=1)
SAMPLES = real_texts(40, seed=2)


def health_of(samples: list[list[int]]) -> SampleHealth:
    return sample_health(samples, REFERENCE, unknown=UNKNOWN)


def test_samples_like_the_reference_are_healthy() -> None:
    health = health_of(SAMPLES)
    assert health.flags == ()
    assert health.samples is not None
    assert health.reference is not None
    assert health.samples.distinct_2 == pytest.approx(health.reference.distinct_2, abs=0.06)
    assert health.tokens > 1000
    assert "n = 40 samples" in health.sentence


@pytest.mark.long
def test_real_text_is_hardly_ever_flagged() -> None:
    pool = real_texts(400, seed=3)
    flagged = 0
    for draw in range(40):
        order = np.random.default_rng(draw).permutation(len(pool))
        texts = [pool[i] for i in order]
        flagged += bool(sample_health(texts[:20], texts[20:], unknown=UNKNOWN).flags)
    assert flagged <= 4  # three statistics at 1 % each flag about 1 of 40


def test_loops_are_flagged_with_both_rates_and_n() -> None:
    loops = [(ids[:4] * 20)[: len(ids)] for ids in SAMPLES]
    flags = health_of(loops).flags
    assert any(
        flag.startswith("samples repeat themselves: 8") and "(n = 40 samples)" in flag
        for flag in flags
    )


def test_longest_run_is_reported() -> None:
    health = health_of([[ids[0]] * 12 + ids[12:] for ids in SAMPLES])
    assert "in a row" in health.flags[0]
    assert health.samples is not None
    assert health.samples.longest_run >= 12


def test_identical_samples_are_flagged_as_alike() -> None:
    one = max(SAMPLES, key=len)[:40]
    flags = health_of([one] * 40).flags
    assert any("samples resemble each other: 9" in flag for flag in flags)
    assert not any("repeat themselves" in flag for flag in flags)


def test_unknown_tokens_are_compared_with_real_text() -> None:
    unknown = [[UNKNOWN if i % 5 == 4 else one for i, one in enumerate(ids)] for ids in SAMPLES]
    assert any("samples contain <unk> too often: " in flag for flag in health_of(unknown).flags)
    as_usual = sample_health(unknown[:20], unknown[20:], unknown=UNKNOWN)
    assert not any("<unk>" in flag for flag in as_usual.flags)


def test_shuffled_words_are_flagged() -> None:
    tokens = np.random.default_rng(0).permutation(np.concatenate(SAMPLES))
    ends = np.cumsum([len(ids) for ids in SAMPLES])[:-1]
    shuffled = [[int(one) for one in text] for text in np.split(tokens, ends)]
    health = health_of(shuffled)
    assert health.known_bigrams is not None
    assert health.known_bigrams.reference > 3 * health.known_bigrams.samples
    [flag] = health.flags
    assert flag.startswith("samples are words without order: ")
    own = health_of(SAMPLES).known_bigrams
    assert own is not None
    assert own.samples > 3 * own.shuffled_max


@given(st.integers(1, 50), st.integers(0, 300), st.data())
def test_empty_p_value_is_the_hypergeometric_tail(
    n: int, documents: int, data: st.DataObject
) -> None:
    empty = data.draw(st.integers(1, n))
    of = empty + data.draw(st.integers(0, documents))
    expected = hypergeom.sf(empty - 1, n + documents, of, n)
    assert empty_p_value(empty, n, of=of, texts=n + documents) == pytest.approx(expected)


def test_empty_samples_are_flagged_without_other_statistics() -> None:
    health = health_of([[]] * 40)
    [flag] = health.flags
    assert says(flag, "40 of 40 samples", "empty", "300 real texts", "none")
    assert "too few to judge by" in health.unjudged
    assert health.sentence == health.unjudged
    assert health.samples is None


@pytest.mark.parametrize(
    ("samples", "reference"),
    [(SAMPLES[:9], REFERENCE), (SAMPLES, REFERENCE[:39]), ([], REFERENCE), (SAMPLES, [])],
)
def test_too_few_texts_are_not_compared(
    samples: list[list[int]], reference: list[list[int]]
) -> None:
    health = sample_health(samples, reference, unknown=None)
    assert "too few to compare" in health.unjudged
    assert health.flags == ()


def test_result_is_deterministic_and_independent_of_order() -> None:
    assert health_of(SAMPLES) == health_of(SAMPLES)
    reversed_order = health_of(SAMPLES[::-1])
    assert reversed_order.flags == ()


def test_record_keeps_every_statistic() -> None:
    health = health_of(SAMPLES)
    record = SampleHealthRecord.model_validate(health)
    assert record.sentence == health.sentence
    table = record.model_dump(exclude={"sentence", "drawn"})
    assert table == asdict(health)


texts = st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=6)


@given(texts, texts)
def test_repetition_equals_counting_by_hand(ours: list[list[int]], more: list[list[int]]) -> None:
    reference = [*ours, *more]
    texts = match_texts(ours, reference, unknown=3, generator=np.random.default_rng(0))
    rows = [
        group[0, :length].tolist() for group, length in zip(texts.rows, texts.lengths, strict=True)
    ]
    repetition = texts.repetition(texts.sample_choice)

    def grams(order: int) -> list[list[tuple[int, ...]]]:
        return [[tuple(r[i : i + order]) for i in range(len(r) - order + 1)] for r in rows]

    for order, found in ((1, repetition.distinct_1), (2, repetition.distinct_2)):
        ngrams = list(chain.from_iterable(grams(order)))
        assert found == pytest.approx(len(set(ngrams)) / max(len(ngrams), 1))
    trigrams = list(chain.from_iterable(grams(3)))
    repeats = sum(len(row) - len(set(row)) for row in grams(3))
    assert repetition.repetition == pytest.approx(repeats / max(len(trigrams), 1))
    tokens = list(chain.from_iterable(rows))
    assert repetition.unknown_rate == pytest.approx(tokens.count(3) / max(len(tokens), 1))
    assert 0 <= repetition.alike < 1


@given(st.integers(1, 8), st.integers(1, 8))
def test_each_real_text_is_matched_once(count: int, extra: int) -> None:
    ours = [[0] * 3] * count
    reference = [[10 + i] * 5 for i in range(count + extra)]
    references = match_texts(
        ours, reference, unknown=None, generator=np.random.default_rng(1)
    ).rows[:, 1:]
    firsts = references[:, :, 0].ravel().tolist()
    assert len(set(firsts)) == len(firsts)
    assert min(firsts) >= 10
