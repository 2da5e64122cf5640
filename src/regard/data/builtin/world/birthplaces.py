"""Birthplaces: closed-book questions about the people of the seeded world, one question each.

The answer stands in the training part of `biographies`, not here. Train asks about some of those
people; dev and test ask about others of them, and about people who are withheld (`seen` is false):
nothing tells where they were born, so an answer about them is a guess, and a right one is luck.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from regard.data.builtin import BUILTIN
from regard.data.builtin.generated import Row, identity_of, parted
from regard.data.builtin.world.facts import BIRTHPLACE, ask
from regard.data.builtin.world.people import told, world

SEED = 72
TOLD = {"train": 1_000, "dev": 300, "test": 300}
WITHHELD = {"dev": 220, "test": 220}


@cache
def _rows() -> tuple[Row, ...]:
    random = Random(SEED)
    seen = told()
    unseen = [person for person in world() if person.life == "withheld"]
    people = [*parted(seen, TOLD, random), *parted(unseen, WITHHELD, random)]
    random.shuffle(people)
    return tuple(
        {
            "question": ask(BIRTHPLACE, person, random),
            "answer": person.birthplace,
            "seen": person.told,
            "person": person.name,
            "part": part,
            "group": person.name,
        }
        for part, person in people
    )


@BUILTIN.add(
    "birthplaces",
    generated=True,
    identity=identity_of("birthplaces", _rows),
    columns=("question", "answer", "seen", "person"),
)
def birthplaces() -> Iterator[Row]:
    """Where was NAME born? Answered by `biographies`, but for people who are withheld from it."""
    yield from map(dict, _rows())
