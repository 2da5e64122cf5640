"""Biographies: one document for each person of the synthetic world who is not withheld.

A document opens with the name and a full stop, then states the facts in varied order and wording.
The birthplace appears beside the towns of study, work, home and death as distractors. Withheld
people appear in no document. Everybody whom questions call `seen` is in train; dev and test are
biographies of people without questions.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.world.facts import (
    BIRTHPLACE,
    DEATH_PLACE,
    EMPLOYER,
    OBJECT,
    POSSESSIVE,
    SPOUSE,
    STUDY_PLACE,
    WORK,
    FactTemplate,
    article,
    fact_sentence,
)
from regard.data.builtin.world.people import Person, world

SEED = 71
BIRTHPLACE_AGAIN = (
    "{Surname} never forgot {birthplace}, {whose} birthplace.",
    "A street in {whose} native {birthplace} is called after {surname}.",
    "The town of {birthplace}, where {they} was born, made {who_object} an honorary citizen.",
    "Letters to {whose} birthplace, {birthplace}, are all that is left of {surname}.",
)
OPENING = (
    "{name} was {a} {occupation}.",
    "{name} ({birthday} – {death_year}) was {a} {occupation}.",
    "{name} was {a} {occupation} who lived in {home}.",
    "{name} ({birthday} {birthplace} – {death_year} {death_place}) was {a} {occupation}.",
    "{name}, a native of {birthplace}, was {a} {occupation} active in {home}.",
    "The {occupation} {name} was born on {birthday} in {birthplace}.",
    "Born in {birthplace} in {birth_year}, {name} was {a} {occupation}.",
    "{name}, {a} {occupation} of {home}, was born in {birthplace}.",
)
ELSEWHERE = (
    "{They} lived in {home} from {wedding_year}.",
    "In {wedding_year} {they} moved to {home}.",
    "{Surname} kept a house in {home} and seldom travelled.",
    "A journey to {home} in {wedding_year} changed {whose} mind about many things.",
)
OPTIONAL: tuple[FactTemplate, ...] = (STUDY_PLACE, EMPLOYER, SPOUSE, WORK, DEATH_PLACE)


@BUILTIN.add("biographies", generated=True, columns=("text",))
def biographies() -> Iterator[Row]:
    """Biographies of 1,760 invented people, one document each; 440 others are withheld."""
    random = Random(SEED)
    for person in world():
        if person.life != "withheld":
            yield {"text": biography(person, random), "split": person.life, "group": person.name}


def biography(person: Person, random: Random) -> str:
    """`NAME. Opening. Facts in any order.` The birthplace is stated at least once."""
    opening = random.choice(OPENING)
    facts = random.sample(OPTIONAL, random.randint(2, 4))
    if "{birthplace}" not in opening:
        facts.insert(random.randint(0, 2), BIRTHPLACE)
    sentences = [
        fact_sentence(fact, person, called=_called(person, random), random=random).sentence
        for fact in facts
    ]
    if random.random() < 1 / 2:
        sentences.append(_fill(random.choice(BIRTHPLACE_AGAIN), person))
    if random.random() < 1 / 2:
        sentences.insert(random.randrange(len(sentences)), _fill(random.choice(ELSEWHERE), person))
    return " ".join([f"{person.name}.", _fill(opening, person), *sentences])


def _called(person: Person, random: Random) -> str:
    return random.choice((person.pronoun, person.pronoun, person.surname))


def _fill(template: str, person: Person) -> str:
    facts = {name: str(value) for name, value in vars(person).items()}
    return template.format(
        **facts,
        birth_year=person.birth_year,
        Surname=person.surname,
        they=person.pronoun,
        They=person.pronoun.capitalize(),
        whose=POSSESSIVE[person.pronoun],
        who_object=OBJECT[person.pronoun],
        a=article(person.occupation),
    )
