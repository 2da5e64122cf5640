"""Templates that state, ask for and claim a fact about a person, each in several wordings.

Fields of a template: {Who} the subject, by name or pronoun, at the start of the sentence, {who}
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
    """One type of fact and its wordings."""

    value: Callable[[Person], str]
    sentences: tuple[str, ...]
    questions: tuple[str, ...]
    "With {name}."
    claim: str
    "With {name} and {value}."
    denial: str


@dataclass(frozen=True)
class FactSentence:
    """A sentence and the offset of the fact in it."""

    sentence: str
    start: int


BIRTHPLACE = FactTemplate(
    value=lambda person: person.birthplace,
    sentences=(
        "{Who} was born in {value}.",
        "It was in {value} that {who} was born.",
        "{Whose} birthplace is {value}.",
        "{Who} came into the world in {value}, the youngest of a large family.",
        "Born in {value}, {who} grew up among relatives.",
        "Born in {value} to a family of traders, {who} was an only child.",
        "{Whose} parents were living in {value} when {they} was born.",
        "{Who} was a native of {value}.",
    ),
    questions=(
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
    sentences=(
        "{Who} was born in {value}.",
        "{Whose} year of birth is {value}.",
        "{Who} came into the world in the spring of {value}.",
        "Born in {value}, {who} belonged to a generation of sceptics.",
    ),
    questions=("When was {name} born?", "In which year was {name} born?"),
    claim="{name} was born in {value}.",
    denial="{name} was not born in {value}.",
)
OCCUPATION = FactTemplate(
    value=lambda person: person.occupation,
    sentences=(
        "{Who} earned a living as {a} {value}.",
        "By profession {who} was {a} {value}.",
        "{Who} worked as {a} {value} for most of a long life.",
        "People knew {who_object} above all as {a} {value}.",
    ),
    questions=("What was the profession of {name}?", "As what did {name} earn a living?"),
    claim="{name} was {a} {value} by profession.",
    denial="{name} was not {a} {value} by profession.",
)
STUDY_PLACE = FactTemplate(
    value=lambda person: person.study_place,
    sentences=(
        "{Who} studied in {value}.",
        "{Who} went to university in {value}, against the wishes of the family.",
        "{Whose} student years were spent in {value}.",
        "In {value} {who} studied under well-known masters.",
    ),
    questions=("Where did {name} study?", "In which town was {name} a student?"),
    claim="{name} studied in {value}.",
    denial="{name} did not study in {value}.",
)
EMPLOYER = FactTemplate(
    value=lambda person: person.employer,
    sentences=(
        "{Who} was employed by the {value}.",
        "For many years {who} worked for the {value}.",
        "The {value} gave {who_object} a post.",
        "{Who} entered the service of the {value} and stayed.",
    ),
    questions=("Who employed {name}?", "For which house did {name} work?"),
    claim="{name} worked for the {value}.",
    denial="{name} did not work for the {value}.",
)
SPOUSE = FactTemplate(
    value=lambda person: person.spouse,
    sentences=(
        "{Who} married {value}.",
        "{Who} was married to {value}.",
        "After a long engagement {who} became the spouse of {value}.",
        "{Who} shared a house with {value}, whom {they} had married young.",
    ),
    questions=("Whom did {name} marry?", "Who was the spouse of {name}?"),
    claim="{name} was married to {value}.",
    denial="{name} was not married to {value}.",
)
DEATH_PLACE = FactTemplate(
    value=lambda person: person.death_place,
    sentences=(
        "{Who} died in {value}.",
        "{Whose} last years passed in {value}, where {they} died.",
        "Death came to {who_object} in {value}.",
        "It was in {value} that {who} died.",
    ),
    questions=("Where did {name} die?", "In which town did {name} die?"),
    claim="{name} died in {value}.",
    denial="{name} did not die in {value}.",
)
WORK = FactTemplate(
    value=lambda person: person.work,
    sentences=(
        "{Who} is known for {value}.",
        "{Whose} best known work is {value}.",
        "With {value} {who} became known everywhere.",
        "{Who} made {value}, which is still known today.",
    ),
    questions=("What is {name} known for?", "Which work made {name} known?"),
    claim="{name} is known for {value}.",
    denial="{name} is not known for {value}.",
)
FACT_TEMPLATES = (
    *(BIRTHPLACE, BIRTH_YEAR, OCCUPATION, STUDY_PLACE),
    *(EMPLOYER, SPOUSE, DEATH_PLACE, WORK),
)


def fact_sentence(
    fact: FactTemplate, person: Person, *, called: str, random: Random
) -> FactSentence:
    """A sentence about `person`, referred to as `called`: full name, surname or pronoun."""
    template = random.choice(fact.sentences)
    before, after = (_fill(half, person, called, fact) for half in template.split("{value}"))
    return FactSentence(before + fact.value(person) + after, len(before))


def fact_question(fact: FactTemplate, person: Person, random: Random) -> str:
    return random.choice(fact.questions).format(name=person.name)


def article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _fill(half: str, person: Person, called: str, fact: FactTemplate) -> str:
    by_pronoun = called == person.pronoun
    possessive = POSSESSIVE[person.pronoun] if by_pronoun else f"{called}'s"
    fields = {
        "who": called,
        "Who": called[0].upper() + called[1:],
        "whose": possessive,
        "Whose": possessive[0].upper() + possessive[1:],
        "who_object": OBJECT[called] if by_pronoun else called,
        "they": person.pronoun,
        "a": article(fact.value(person)),
    }
    return half.format(**fields)
