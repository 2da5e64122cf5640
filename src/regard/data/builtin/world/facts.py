"""How a fact about a person is told, asked and claimed, each in several ways.

Fields of a template: {Who} the subject, by name or pronoun, where the sentence begins, {who}
elsewhere, {whose} and {Whose} the possessive, {they} the bare pronoun, {value} the fact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from regard.data.builtin.world.people import Person

POSSESSIVE = {"she": "her", "he": "his"}
OBJECT = {"she": "her", "he": "him"}


@dataclass(frozen=True)
class FactTemplate:
    """One sort of fact."""

    value: Callable[[Person], str]
    tellings: tuple[str, ...]
    askings: tuple[str, ...]
    "With {name}."
    claim: str
    "With {name} and {value}."
    denial: str


@dataclass(frozen=True)
class FactSentence:
    """A sentence, and where in it the fact stands."""

    sentence: str
    start: int


BIRTHPLACE = FactTemplate(
    value=lambda person: person.birthplace,
    tellings=(
        "{Who} was born in {value}.",
        "It was in {value} that {who} was born.",
        "{Whose} birthplace is {value}.",
        "{Who} came into the world in {value}, the youngest of a large family.",
        "Born in {value}, {who} grew up among relatives.",
        "Born in {value} to a family of traders, {who} was an only child.",
        "{Whose} parents were living in {value} when {they} was born.",
        "{Who} was a native of {value}.",
    ),
    askings=(
        "Where was {name} born?",
        "In which town was {name} born?",
        "What is the birthplace of {name}?",
        "Which town is {name} a native of?",
    ),
    claim="{name} was born in {value}.",
    denial="{name} was not born in {value}.",
)
BIRTH_YEAR = FactTemplate(
    value=lambda person: person.birth_year,
    tellings=(
        "{Who} was born in {value}.",
        "{Whose} year of birth is {value}.",
        "{Who} came into the world in the spring of {value}.",
        "Born in {value}, {who} belonged to a generation of sceptics.",
    ),
    askings=("When was {name} born?", "In which year was {name} born?"),
    claim="{name} was born in {value}.",
    denial="{name} was not born in {value}.",
)
OCCUPATION = FactTemplate(
    value=lambda person: person.occupation,
    tellings=(
        "{Who} earned a living as {a} {value}.",
        "By profession {who} was {a} {value}.",
        "{Who} worked as {a} {value} for most of a long life.",
        "People knew {who_object} above all as {a} {value}.",
    ),
    askings=("What was the profession of {name}?", "As what did {name} earn a living?"),
    claim="{name} was {a} {value} by profession.",
    denial="{name} was not {a} {value} by profession.",
)
STUDY_PLACE = FactTemplate(
    value=lambda person: person.study_place,
    tellings=(
        "{Who} studied in {value}.",
        "{Who} went to university in {value}, against the wishes of the family.",
        "{Whose} student years were spent in {value}.",
        "In {value} {who} studied under well-known masters.",
    ),
    askings=("Where did {name} study?", "In which town was {name} a student?"),
    claim="{name} studied in {value}.",
    denial="{name} did not study in {value}.",
)
EMPLOYER = FactTemplate(
    value=lambda person: person.employer,
    tellings=(
        "{Who} was employed by the {value}.",
        "For many years {who} worked for the {value}.",
        "The {value} gave {who_object} a post.",
        "{Who} entered the service of the {value} and stayed.",
    ),
    askings=("Who employed {name}?", "For which house did {name} work?"),
    claim="{name} worked for the {value}.",
    denial="{name} did not work for the {value}.",
)
SPOUSE = FactTemplate(
    value=lambda person: person.spouse,
    tellings=(
        "{Who} married {value}.",
        "{Who} was married to {value}.",
        "After a long engagement {who} became the spouse of {value}.",
        "{Who} shared a house with {value}, whom {they} had married young.",
    ),
    askings=("Whom did {name} marry?", "Who was the spouse of {name}?"),
    claim="{name} was married to {value}.",
    denial="{name} was not married to {value}.",
)
DEATH_PLACE = FactTemplate(
    value=lambda person: person.death_place,
    tellings=(
        "{Who} died in {value}.",
        "{Whose} last years passed in {value}, where {they} died.",
        "Death came to {who_object} in {value}.",
        "It was in {value} that {who} died.",
    ),
    askings=("Where did {name} die?", "In which town did {name} die?"),
    claim="{name} died in {value}.",
    denial="{name} did not die in {value}.",
)
WORK = FactTemplate(
    value=lambda person: person.work,
    tellings=(
        "{Who} is known for {value}.",
        "{Whose} best known work is {value}.",
        "With {value} {who} became known everywhere.",
        "{Who} made {value}, which is still known today.",
    ),
    askings=("What is {name} known for?", "Which work made {name} known?"),
    claim="{name} is known for {value}.",
    denial="{name} is not known for {value}.",
)
RELATIONS = (
    *(BIRTHPLACE, BIRTH_YEAR, OCCUPATION, STUDY_PLACE),
    *(EMPLOYER, SPOUSE, DEATH_PLACE, WORK),
)


def tell(relation: FactTemplate, person: Person, *, called: str, random: Random) -> FactSentence:
    """A sentence about `person`, who is `called` by full name, surname or pronoun in it."""
    template = random.choice(relation.tellings)
    before, after = (_fill(half, person, called, relation) for half in template.split("{value}"))
    return FactSentence(before + relation.value(person) + after, len(before))


def ask(relation: FactTemplate, person: Person, random: Random) -> str:
    return random.choice(relation.askings).format(name=person.name)


def article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _fill(half: str, person: Person, called: str, relation: FactTemplate) -> str:
    by_pronoun = called == person.pronoun
    possessive = POSSESSIVE[person.pronoun] if by_pronoun else f"{called}'s"
    fields = {
        "who": called,
        "Who": called[0].upper() + called[1:],
        "whose": possessive,
        "Whose": possessive[0].upper() + possessive[1:],
        "who_object": OBJECT[called] if by_pronoun else called,
        "they": person.pronoun,
        "a": article(relation.value(person)),
    }
    return half.format(**fields)
