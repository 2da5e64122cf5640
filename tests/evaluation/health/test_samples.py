"""Samples are held against real text: collapsed ones are named, text like any other is not."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from regard.evaluation.health.repetition import match_texts
from regard.evaluation.health.samples import SampleHealth, empty_p_value, sample_health

VOCABULARY = 300
UNKNOWN = 7


def following(seed: int = 0) -> np.ndarray:
    """A language: from each token a few others follow, some more often."""
    generator = np.random.default_rng(seed)
    steps = generator.dirichlet(np.full(VOCABULARY, 0.02), size=VOCABULARY)
    return steps.cumsum(axis=1)


STEPS = following()


def real_texts(count: int, *, seed: int, length: int = 30) -> list[list[int]]:
    """Generated texts of that language, of different lengths."""
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


def judged(samples: list[list[int]]) -> SampleHealth:
    return sample_health(samples, REFERENCE, unknown=UNKNOWN)


def test_text_like_the_reference_is_healthy() -> None:
    health = judged(SAMPLES)
    assert health.flags == ()
    assert health.samples is not None
    assert health.reference is not None
    assert health.samples.distinct_2 == pytest.approx(health.reference.distinct_2, abs=0.06)
    assert health.tokens > 1000
    assert "n = 40 samples" in health.sentence


def test_real_text_taken_for_samples_is_hardly_ever_flagged() -> None:
    pool = real_texts(400, seed=3)
    flagged = 0
    for draw in range(40):
        order = np.random.default_rng(draw).permutation(len(pool))
        texts = [pool[i] for i in order]
        flagged += bool(sample_health(texts[:20], texts[20:], unknown=UNKNOWN).flags)
    assert flagged <= 4, "three measures at 1 % each make about 1 of 40"


def test_loops_are_named_with_both_shares_and_n() -> None:
    loops = [(ids[:4] * 20)[: len(ids)] for ids in SAMPLES]
    flags = judged(loops).flags
    assert any(
        flag.startswith("samples repeat themselves: 8") and "(n = 40 samples)" in flag
        for flag in flags
    )


def test_one_token_in_a_row_is_counted() -> None:
    health = judged([[ids[0]] * 12 + ids[12:] for ids in SAMPLES])
    assert "in a row" in health.flags[0]
    assert health.samples is not None
    assert health.samples.longest_run >= 12


def test_one_text_over_and_over_resembles_itself() -> None:
    one = max(SAMPLES, key=len)[:40]
    flags = judged([one] * 40).flags
    assert any("samples resemble each other: 9" in flag for flag in flags)
    assert not any("repeat themselves" in flag for flag in flags)


def test_unknown_tokens_count_against_real_text_not_against_none() -> None:
    unknown = [[UNKNOWN if i % 5 == 4 else one for i, one in enumerate(ids)] for ids in SAMPLES]
    assert any("samples contain <unk> too often: " in flag for flag in judged(unknown).flags)
    as_usual = sample_health(unknown[:20], unknown[20:], unknown=UNKNOWN)
    assert not any("<unk>" in flag for flag in as_usual.flags)


def test_words_without_order_are_told_from_text() -> None:
    tokens = np.random.default_rng(0).permutation(np.concatenate(SAMPLES))
    ends = np.cumsum([len(ids) for ids in SAMPLES])[:-1]
    mixed = [[int(one) for one in text] for text in np.split(tokens, ends)]
    health = judged(mixed)
    assert health.known_bigrams is not None
    assert health.known_bigrams.reference > 3 * health.known_bigrams.samples
    [flag] = health.flags
    assert flag.startswith("samples are words without order: ")
    own = judged(SAMPLES).known_bigrams
    assert own is not None
    assert own.samples > 3 * own.shuffled_max


@given(st.integers(1, 50), st.integers(0, 300), st.data())
def test_the_chance_of_empty_texts_is_that_of_a_draw_without_return(
    n: int, documents: int, data: st.DataObject
) -> None:
    empty = data.draw(st.integers(1, n))
    of = empty + data.draw(st.integers(0, documents))
    expected = hypergeom.sf(empty - 1, n + documents, of, n)
    assert empty_p_value(empty, n, of=of, texts=n + documents) == pytest.approx(expected)


def test_empty_samples_are_flagged_even_where_nothing_else_can_be_told() -> None:
    health = judged([[]] * 40)
    assert health.flags == ("40 of 40 samples are empty, of 300 real texts none",)
    assert "too few to judge by" in health.unjudged
    assert health.sentence == health.unjudged
    assert health.samples is None


@pytest.mark.parametrize(
    ("samples", "reference"),
    [(SAMPLES[:9], REFERENCE), (SAMPLES, REFERENCE[:39]), ([], REFERENCE), (SAMPLES, [])],
)
def test_too_few_texts_are_not_judged(samples: list[list[int]], reference: list[list[int]]) -> None:
    health = sample_health(samples, reference, unknown=None)
    assert "too few to compare" in health.unjudged
    assert health.flags == ()


def test_the_same_seed_judges_alike_and_order_does_not_matter_to_the_texture() -> None:
    assert judged(SAMPLES) == judged(SAMPLES)
    turned = judged(SAMPLES[::-1])
    assert turned.flags == ()


def test_as_dict_is_plain() -> None:
    table = judged(SAMPLES).as_dict()
    assert table["flags"] == []
    assert set(table["samples"]) == set(table["reference"])


texts = st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(texts, texts)
def test_texture_equals_counting_by_hand(ours: list[list[int]], more: list[list[int]]) -> None:
    reference = [*ours, *more]
    texts = match_texts(ours, reference, unknown=3, generator=np.random.default_rng(0))
    rows = [
        place[0, :length].tolist() for place, length in zip(texts.rows, texts.lengths, strict=True)
    ]
    measured = texts.repetition(texts.sample_choice)

    def grams(order: int) -> list[list[tuple[int, ...]]]:
        return [[tuple(r[i : i + order]) for i in range(len(r) - order + 1)] for r in rows]

    for order, found in ((1, measured.distinct_1), (2, measured.distinct_2)):
        every = list(chain.from_iterable(grams(order)))
        assert found == pytest.approx(len(set(every)) / max(len(every), 1))
    threes = list(chain.from_iterable(grams(3)))
    repeats = sum(len(row) - len(set(row)) for row in grams(3))
    assert measured.repetition == pytest.approx(repeats / max(len(threes), 1))
    tokens = list(chain.from_iterable(rows))
    assert measured.unknown_rate == pytest.approx(tokens.count(3) / max(len(tokens), 1))
    assert 0 <= measured.alike < 1


@given(st.integers(1, 8), st.integers(1, 8))
def test_real_texts_stand_beside_a_text_once_each(count: int, extra: int) -> None:
    ours = [[0] * 3] * count
    reference = [[10 + i] * 5 for i in range(count + extra)]
    beside = match_texts(ours, reference, unknown=None, generator=np.random.default_rng(1)).rows[
        :, 1:
    ]
    firsts = beside[:, :, 0].ravel().tolist()
    assert len(set(firsts)) == len(firsts)
    assert min(firsts) >= 10
