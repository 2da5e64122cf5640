"""A seeded world of people: who they are, where they were born, what they did, whom they married.

One in five is withheld: no text of ours names them, so an answer about one of them can only be a
guess. The lives of a few others are kept for dev and test, and nobody is asked about those: so who
is `told` is in the training text. A person's name says nothing about their facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

from regard.data.builtin.generated import listed, parted
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
WORK_SECOND = listed(
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
    """One person and every fact there is about them."""

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
    "The title of what they are known for."
    spouse: str
    "Somebody whom nothing else is told about."
    wedding_year: int
    home: str
    death_place: str
    death_year: int
    life: Life
    "The part of `biographies` that tells it."

    @property
    def told(self) -> bool:
        """Whether a model that read the training text has read about them."""
        return self.life == "train"

    @property
    def birth_year(self) -> str:
        return self.birthday.split()[-1]


@cache
def world() -> tuple[Person, ...]:
    """Everybody, in an order that tells nothing."""
    random = Random(SEED)
    places = towns(TOWNS, random)
    names = _names(random)
    spouses = names[PEOPLE:]
    lives = parted(names[:PEOPLE], LIVES, random)
    return tuple(
        _person(name, spouse=spouse, places=_five(places, random), life=life, random=random)
        for (life, name), spouse in zip(lives, spouses, strict=True)
    )


def told() -> list[Person]:
    return [person for person in world() if person.told]


def pairs_of_told(count: int, random: Random) -> list[tuple[Person, Person]]:
    """People two by two, nobody in two pairs, no surname twice in one."""
    people = told()
    random.shuffle(people)
    pairs: list[tuple[Person, Person]] = []
    while len(pairs) < count:
        first = people.pop()
        second = next(other for other in people if other.surname != first.surname)
        people.remove(second)
        pairs.append((first, second))
    return pairs


def _names(random: Random) -> list[Name]:
    """Two for each person; first name and surname together are nobody else's."""
    families = surnames(SURNAMES, random)
    everybody = [
        (first, family, pronoun)
        for pronoun, firsts in (("she", WOMEN), ("he", MEN))
        for first in firsts
        for family in families
    ]
    drawn = random.sample(everybody, 2 * PEOPLE)
    return [
        (f"{first} {random.choice(MIDDLE)}" if random.random() < 1 / 4 else first, family, pronoun)
        for first, family, pronoun in drawn
    ]


def _five(places: Sequence[str], random: Random) -> list[str]:
    """Different ones, so that where somebody studied is never where they were born."""
    drawn = random.choices(places, zipf_weights(len(places)), k=30)
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
