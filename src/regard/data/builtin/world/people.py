"""A synthetic world of people, drawn from a seed: names, birthplaces, occupations, spouses.

One person in five is withheld: no text names them, so an answer about them can only be a guess. The
biographies of a few others are in dev and test, and no question is about these: so everybody who is
`seen` is in the training text. A person's name is independent of their facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

from regard.data.builtin.generated import assign_splits, word_list
from regard.data.builtin.world.names import MEN, MIDDLE, WOMEN, surnames, towns, zipf_weights

Life = Literal["train", "dev", "test", "withheld"]

SEED = 1_903
PEOPLE = 2_200
TOWNS = 150
SURNAMES = 420
LIVES: dict[Life, int] = {"train": 1_600, "dev": 80, "test": 80, "withheld": 440}

OCCUPATIONS = {
    "astronomer": "Observatory",
    "botanist": "Botanical Garden",
    "architect": "School of Building",
    "painter": "Academy of Arts",
    "sculptor": "Academy of Arts",
    "engraver": "Mint",
    "composer": "Opera",
    "conductor": "Philharmonic",
    "violinist": "Philharmonic",
    "singer": "Opera",
    "actor": "City Theatre",
    "playwright": "City Theatre",
    "poet": "Literary Review",
    "novelist": "Literary Review",
    "journalist": "Gazette",
    "editor": "Gazette",
    "photographer": "Gazette",
    "historian": "State Archive",
    "linguist": "Institute of Languages",
    "mathematician": "Polytechnic",
    "physicist": "Polytechnic",
    "chemist": "Dye Works",
    "engineer": "Railway",
    "shipbuilder": "Shipyard",
    "geologist": "Mining Company",
    "surgeon": "General Hospital",
    "physician": "General Hospital",
    "lawyer": "Court of Appeal",
    "judge": "Court of Appeal",
    "economist": "Savings Bank",
    "banker": "Savings Bank",
    "librarian": "Public Library",
    "explorer": "Geographical Society",
    "teacher": "Girls' School",
    "philosopher": "Free University",
    "weaver": "Textile Mill",
    "glassmaker": "Glass Works",
    "clockmaker": "Clock Factory",
    "printer": "Printing House",
    "gardener": "Botanical Garden",
}
WORK_SECOND = word_list(
    """Harbour Winter Garden Mirror Orchard Lantern River Staircase Letter Season Window Island
    Bridge Meridian Tide Morning Carousel Almanac Furnace Meadow"""
)
WORK_FIRST = ("The Silent", "The Last", "A Second", "The Open", "The Hidden", "The Long", "Our")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

Name = tuple[str, str, str]
"(first and middle, surname, pronoun)"


@dataclass(frozen=True)
class Person:
    """One person and all facts about them."""

    name: str
    surname: str
    pronoun: str
    "she or he"
    birthplace: str
    birthday: str
    "12 March 1871"
    occupation: str
    employer: str
    study_place: str
    work: str
    "Title of their best-known work."
    spouse: str
    "A person without other facts."
    wedding_year: int
    home: str
    death_place: str
    death_year: int
    life: Life
    "The split of `biographies` that holds it."

    @property
    def seen(self) -> bool:
        """Whether their biography is in the training text."""
        return self.life == "train"

    @property
    def birth_year(self) -> str:
        return self.birthday.split()[-1]


@cache
def world() -> tuple[Person, ...]:
    """All people, in random order."""
    random = Random(SEED)
    all_towns = towns(TOWNS, random)
    names = _names(random)
    spouses = names[PEOPLE:]
    lives = assign_splits(names[:PEOPLE], LIVES, random)
    return tuple(
        _person(
            name, spouse=spouse, places=_draw_towns(all_towns, random), life=life, random=random
        )
        for (life, name), spouse in zip(lives, spouses, strict=True)
    )


def seen_people() -> list[Person]:
    return [person for person in world() if person.seen]


def seen_pairs(count: int, random: Random) -> list[tuple[Person, Person]]:
    """Disjoint pairs of seen people with different surnames."""
    people = seen_people()
    random.shuffle(people)
    pairs: list[tuple[Person, Person]] = []
    while len(pairs) < count:
        first = people.pop()
        second = next(other for other in people if other.surname != first.surname)
        people.remove(second)
        pairs.append((first, second))
    return pairs


def _names(random: Random) -> list[Name]:
    """Two for each person, theirs and their spouse's; first name plus surname is unique."""
    families = surnames(SURNAMES, random)
    combinations = [
        (first, family, pronoun)
        for pronoun, firsts in (("she", WOMEN), ("he", MEN))
        for first in firsts
        for family in families
    ]
    drawn = random.sample(combinations, 2 * PEOPLE)
    return [
        (f"{first} {random.choice(MIDDLE)}" if random.random() < 1 / 4 else first, family, pronoun)
        for first, family, pronoun in drawn
    ]


def _draw_towns(all_towns: Sequence[str], random: Random) -> list[str]:
    """Five different towns, so that the birthplace is never the place of study."""
    drawn = random.choices(all_towns, zipf_weights(len(all_towns)), k=30)
    return list(dict.fromkeys(drawn))[:5]


def _person(
    name: Name, *, spouse: Name, places: Sequence[str], life: Life, random: Random
) -> Person:
    given, surname, pronoun = name
    occupation, house = random.choice(list(OCCUPATIONS.items()))
    year = random.randint(1790, 1930)
    return Person(
        name=f"{given} {surname}",
        surname=surname,
        pronoun=pronoun,
        birthplace=places[0],
        birthday=f"{random.randint(1, 28)} {random.choice(MONTHS)} {year}",
        occupation=occupation,
        employer=f"{places[1]} {house}",
        study_place=places[2],
        work=f"{random.choice(WORK_FIRST)} {random.choice(WORK_SECOND)}",
        spouse=f"{spouse[0]} {spouse[1]}",
        wedding_year=year + random.randint(20, 40),
        home=places[3],
        death_place=places[4],
        death_year=year + random.randint(45, 90),
        life=life,
    )
