"""Edit distances against a plain reference, one at a time and in bands."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.data.overlap.sequences import Sequences
from regard.data.overlap.similarity import edit_distances, text_similarity, token_similarity

TOKENS = st.lists(st.sampled_from("abcd"), max_size=14)
PAIRS = st.lists(st.tuples(TOKENS.filter(bool), TOKENS.filter(bool)), min_size=1, max_size=6)


def levenshtein(first: list[str], second: list[str]) -> int:
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        above, row[0] = row[0], i
        for j, b in enumerate(second, start=1):
            above, row[j] = row[j], min(above + (a != b), row[j] + 1, row[j - 1] + 1)
    return row[-1]


@given(TOKENS, TOKENS)
def test_similarity_equals_the_reference(first: list[str], second: list[str]) -> None:
    longer = max(len(first), len(second))
    expected = (longer - levenshtein(first, second)) / longer if longer else 1.0
    assert token_similarity(first, second) == expected
    assert token_similarity(second, first) == expected


@given(TOKENS)
def test_a_sequence_is_most_similar_to_itself(tokens: list[str]) -> None:
    assert token_similarity(tokens, tokens) == 1


@given(PAIRS, st.integers(0, 6))
def test_distances_in_a_band_are_exact_up_to_its_width(
    pairs: list[tuple[list[str], list[str]]], band: int
) -> None:
    first, second = (
        Sequences.of(
            np.array([ord(token) for pair in pairs for token in pair[side]], np.uint64),
            [len(pair[side]) for pair in pairs],
        )
        for side in (0, 1)
    )
    every = np.arange(len(pairs))
    within = np.full(len(pairs), band)
    for distance, pair in zip(
        edit_distances(first, second, every, every, within=within), pairs, strict=True
    ):
        expected = levenshtein(*pair)
        assert distance == expected if expected <= band else distance > band


def test_a_fifth_of_the_words_may_differ() -> None:
    words = list("abcdefghij")
    assert text_similarity(" ".join(words), " ".join([*words[:8], "x", "y"])) == 0.8
    assert text_similarity(" ".join(words), " ".join([*words[:7], "x", "y", "z"])) == 0.7


def test_short_texts_are_compared_by_characters() -> None:
    assert text_similarity("What a film!", "what a filn") == 10 / 11
    assert text_similarity("one two", "one two three four five six seven eight") < 0.8
    assert text_similarity("", "") == 1
    assert text_similarity("", "a") == 0


def test_long_sequences_are_as_exact_as_short_ones() -> None:
    generator = random.Random(0)
    words = [f"w{generator.randrange(80)}" for _ in range(400)]
    edited = [word for i, word in enumerate(words) if i % 9] + ["new"] * 10
    shuffled = generator.sample(words, len(words))
    sides = [words, edited, shuffled]
    flat = Sequences.of(
        np.array(
            [int(word[1:] if word != "new" else 99) for side in sides for word in side]
        ).astype(np.uint64),
        [len(side) for side in sides],
    )
    zeros, others = np.zeros(3, np.int64), np.arange(3)
    distances = edit_distances(flat, flat, zeros, others, within=np.full(3, 80))
    assert distances[:2].tolist() == [0, levenshtein(words, edited)]
    assert distances[2] > 80
    different = edit_distances(flat, flat, zeros[:1], others[1:2], within=np.array([9]))
    assert different[0] > 9
