"""Birthplaces: closed-book questions about the people of the synthetic world, one each.

The answer is in the train split of `biographies`, not here. Train asks about some of those people;
dev and test ask about others of them and about withheld people (`seen` is false), whose birthplace
appears nowhere: an answer about them is a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.generated import assign_splits
from regard.data.builtin.world.facts import BIRTHPLACE, fact_question
from regard.data.builtin.world.people import seen_people, world

SEED = 72
SEEN = {"train": 1_000, "dev": 300, "test": 300}
WITHHELD = {"dev": 220, "test": 220}


@BUILTIN.add("birthplaces", generated=True, columns=("question", "answer", "seen", "person"))
def birthplaces() -> Iterator[Row]:
    """Where was NAME born? Answered by `biographies`, except for withheld people."""
    random = Random(SEED)
    seen = seen_people()
    unseen = [person for person in world() if person.life == "withheld"]
    people = [*assign_splits(seen, SEEN, random), *assign_splits(unseen, WITHHELD, random)]
    random.shuffle(people)
    for split, person in people:
        yield {
            "question": fact_question(BIRTHPLACE, person, random),
            "answer": person.birthplace,
            "seen": person.seen,
            "person": person.name,
            "split": split,
            "group": person.name,
        }
