"""Tokenizers, vocabularies and rows shared by the tests of objectives; the text is generated."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
from hypothesis import strategies as st

from regard.data.chunks import Document
from regard.data.tokenizers import TOKENIZERS
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.objectives import Vocabulary

PLAIN = Vocabulary(
    size=99,
    start=2,
    stop=3,
    mask=6,
    specials=frozenset({0, 2, 3, 4, 5, 6, *range(90, 99)}),
    sentinels=tuple(range(90, 99)),
    sep=5,
)
"Ids without text: each is a word. 7 to 89 are ordinary."

KINDS = ("bpe", "wordpiece", "unigram", "word", "character")
NAMES = ("Ada Lovelace", "Jean-Paul Marat", "Douglas P. Fry", "Kim")
CITIES = ("London", "New York City", "Ghent", "Boudry")


def biography(draw: random.Random) -> str:
    name, city = draw.choice(NAMES), draw.choice(CITIES)
    year, month = draw.randint(1700, 1990), draw.choice(("March", "April", "June"))
    sentences = (
        f"{name} was born on {draw.randint(1, 28)} {month} {year} in {city} .",
        f"Born in {city}, they moved to {draw.choice(CITIES)} in {year} .",
        f"{name} ({year} {city}) was a painter's friend, and wrote {draw.randint(2, 99)} books .",
    )
    return f"{name}. {draw.choice(sentences)}"


@cache
def biographies(count: int = 60) -> tuple[str, ...]:
    draw = random.Random(0)
    return tuple(biography(draw) for _ in range(count))


@cache
def tokenizer(kind: str, sentinels: int = 12) -> Tokenizer:
    return TOKENIZERS.get(kind).part(sentinels=sentinels).train(iter(biographies()))


@cache
def vocabulary(kind: str) -> Vocabulary:
    return Vocabulary.from_tokenizer(tokenizer(kind))


def encode_row(text: str, kind: str, *, context: int | None = None) -> Document:
    ids = [vocabulary(kind).start, *tokenizer(kind).encode(text), vocabulary(kind).stop]
    return Document(np.array(ids), context=context)


def random_ids(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(7, 90, size=length)


def random_row(length: int, seed: int = 0, *, context: int | None = None) -> Document:
    return Document(np.concatenate(([2], random_ids(length, seed), [3])), context=context)


kinds = st.sampled_from(KINDS)
texts = st.integers(0, 59).map(lambda index: biographies()[index])
seeds = st.integers(0, 999)
