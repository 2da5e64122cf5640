"""Passages about two people: extractive question answering with unanswerable questions.

A passage states six facts, three of each person, and each type of fact of only one of them. A
question asks for one of the six types, of either person: answerable if the fact is stated of that
person, unanswerable otherwise, although the passage has the name, the words of the question and a
value of the right type. So word overlap does not reveal whether there is an answer. Nobody of dev
or test is in a training passage; in training everybody appears beside several others.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.generated import assign_splits
from regard.data.builtin.world.facts import (
    FACT_TEMPLATES,
    SPOUSE,
    FactTemplate,
    fact_question,
    fact_sentence,
)
from regard.data.builtin.world.people import Person, seen_pairs

SEED = 73
PAIRS = {"train": 400, "dev": 100, "test": 100}
"Passages per split, each about other people."
FURTHER = 1_600
"Further training passages with new pairs of the same people: 400 are too few to learn from."
ANSWERABLE, IMPOSSIBLE = 3, 2
"Questions of each type per passage."
BETWEEN = (
    "The two met in {place} in {year}.",
    "They exchanged letters until {year}.",
    "A festival in {place} brought them together.",
    "In {year} both signed a petition in {place}.",
)

Fact = tuple[FactTemplate, Person]


@BUILTIN.add(
    "passages",
    generated=True,
    columns=("context", "question", "answers", "answer_starts", "impossible", "title"),
)
def passages() -> Iterator[Row]:
    """Passages about invented people; 3 of 5 questions have their answer in the passage."""
    random = Random(SEED)
    pairs = list(assign_splits(seen_pairs(sum(PAIRS.values()), random), PAIRS, random))
    known = [person for split, pair in pairs if split == "train" for person in pair]
    pairs += (("train", _two_of(known, random)) for _ in range(FURTHER))
    for split, pair in pairs:
        title = " and ".join(person.name for person in pair)
        for row in _questions(pair, random):
            yield {**row, "title": title, "split": split, "group": title}


def _two_of(people: list[Person], random: Random) -> tuple[Person, Person]:
    while True:
        first, second = random.sample(people, 2)
        if first.surname != second.surname:
            return first, second


def _questions(pair: tuple[Person, Person], random: Random) -> Iterator[Row]:
    templates = random.sample(FACT_TEMPLATES, 6)
    facts = [(template, pair[number % 2]) for number, template in enumerate(templates)]
    context, starts = _passage(facts, pair, random)
    stated_of = dict(facts)
    questions = [
        (template, stated_of[template]) for template in random.sample(templates, ANSWERABLE)
    ]
    for template in random.sample(templates, IMPOSSIBLE):
        questions.append((template, _other(pair, stated_of[template])))
    random.shuffle(questions)
    for template, person in questions:
        is_stated = stated_of[template] is person
        yield {
            "context": context,
            "question": fact_question(template, person, random),
            "answers": [template.value(person)] if is_stated else [],
            "answer_starts": [starts[template]] if is_stated else [],
            "impossible": not is_stated,
        }


def _passage(
    facts: list[Fact], pair: tuple[Person, Person], random: Random
) -> tuple[str, dict[FactTemplate, int]]:
    """The text and the offset of each fact in it."""
    ordered = random.choice((_grouped_by_person, _shuffled))(facts, random)
    both_are_named = next(n for n, fact in enumerate(ordered) if fact[1] is not ordered[0][1]) + 1
    between_at = random.randint(both_are_named, len(ordered))
    text = ""
    starts: dict[FactTemplate, int] = {}
    last: Fact | None = None
    named: list[Person] = []
    for number, (template, person) in enumerate(ordered):
        if number == between_at:
            text += _between(pair, random)
            last = None
        called = _called(person, last=last, is_named=person in named, random=random)
        sentence = fact_sentence(template, person, called=called, random=random)
        starts[template] = len(text) + sentence.start
        text += sentence.sentence + " "
        last = template, person
        named.append(person)
    if between_at == len(ordered):
        text += _between(pair, random)
    return text.rstrip(), starts


def _between(pair: tuple[Person, Person], random: Random) -> str:
    """A sentence about both, with a town and a year that answer no question."""
    place, year = random.choice(pair).home, random.randint(1850, 1930)
    return random.choice(BETWEEN).format(place=place, year=year) + " "


def _grouped_by_person(facts: list[Fact], random: Random) -> list[Fact]:
    first = random.choice(facts)[1]
    return sorted(_shuffled(facts, random), key=lambda fact: fact[1] is not first)


def _shuffled(facts: list[Fact], random: Random) -> list[Fact]:
    return random.sample(facts, len(facts))


def _called(person: Person, *, last: Fact | None, is_named: bool, random: Random) -> str:
    """A pronoun only if the previous sentence is about the same person and names nobody else."""
    if not is_named:
        return person.name
    if last and last[1] is person and last[0] is not SPOUSE and random.random() < 2 / 3:
        return person.pronoun
    return random.choice((person.name, person.surname))


def _other(pair: tuple[Person, Person], person: Person) -> Person:
    return pair[1] if person is pair[0] else pair[0]
