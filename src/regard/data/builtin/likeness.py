"""Likeness: sentence similarity of pairs of short complaints.

Each complaint has a thing, a trouble and a time, each worded in one of several ways; the score is
how many of the three the pair shares, 0 to 3. Common words explain some of the score, synonyms the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.generated import assign_splits
from regard.data.builtin.lookups import QUESTION, THINGS, TIMES, TROUBLES

SEED = 91
SPLIT_SIZES = {"train": 3_000, "dev": 300, "test": 300}
ASPECTS = (THINGS, TROUBLES, TIMES)


@BUILTIN.add("likeness", generated=True, columns=("first", "second", "score"))
def likeness() -> Iterator[Row]:
    """Generated pairs of complaints and their similarity, 0 to 3."""
    random = Random(SEED)
    pairs = [_pair(random) for _ in range(sum(SPLIT_SIZES.values()))]
    for split, pair in assign_splits(pairs, SPLIT_SIZES, random):
        yield {**pair, "split": split}


def _pair(random: Random) -> Row:
    score = random.randint(0, len(ASPECTS))
    shared = set(random.sample(range(len(ASPECTS)), score))
    first = [random.choice(values) for values in ASPECTS]
    second = [
        first[i] if i in shared else _other(values, first[i], random)
        for i, values in enumerate(ASPECTS)
    ]
    return {"first": _sentence(first, random), "second": _sentence(second, random), "score": score}


def _other(values: tuple[str, ...], excluded: str, random: Random) -> str:
    return random.choice([value for value in values if value != excluded])


def _sentence(topic: list[str], random: Random) -> str:
    thing, trouble, time = (random.choice(wordings.split("|")) for wordings in topic)
    return random.choice(QUESTION).format(thing=thing, trouble=trouble, time=time)
