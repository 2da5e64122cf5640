"""Likeness: pairs of short complaints, with how much of what they say is the same.

Each is about a thing, a trouble and a time, which every wording tells in its own way; the score is
how many of the three both share, 0 to 3. The same thing is mostly called by two names: common words
tell some of it, and which words mean the same tells the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from regard.data.builtin import BUILTIN
from regard.data.builtin.generated import Row, identity_of, parted
from regard.data.builtin.lookups import QUESTION, THINGS, TIMES, TROUBLES

SEED = 91
PARTS = {"train": 3_000, "dev": 300, "test": 300}
ASPECTS = (THINGS, TROUBLES, TIMES)


@cache
def _rows() -> tuple[Row, ...]:
    random = Random(SEED)
    pairs = [_pair(random) for _ in range(sum(PARTS.values()))]
    return tuple({**pair, "part": part} for part, pair in parted(pairs, PARTS, random))


@BUILTIN.add(
    "likeness",
    generated=True,
    identity=identity_of("likeness", _rows),
    columns=("first", "second", "score"),
)
def likeness() -> Iterator[Row]:
    """Made-up pairs of complaints and how alike they are, 0 to 3."""
    yield from map(dict, _rows())


def _pair(random: Random) -> Row:
    score = random.randint(0, len(ASPECTS))
    shared = set(random.sample(range(len(ASPECTS)), score))
    first = [random.choice(kinds) for kinds in ASPECTS]
    second = [
        first[place] if place in shared else _other(kinds, first[place], random)
        for place, kinds in enumerate(ASPECTS)
    ]
    return {"first": _told(first, random), "second": _told(second, random), "score": score}


def _other(kinds: tuple[str, ...], one: str, random: Random) -> str:
    return random.choice([kind for kind in kinds if kind != one])


def _told(topic: list[str], random: Random) -> str:
    thing, trouble, time = (random.choice(wordings.split("|")) for wordings in topic)
    return random.choice(QUESTION).format(thing=thing, trouble=trouble, time=time)
