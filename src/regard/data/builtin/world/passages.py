"""Passages about two people, with questions of which some have no answer there.

Six facts are told, three of each person, and each sort of fact of one of them alone. A question
asks for one of the six, of either person: of the one it is told of, it has an answer; of the other
it has none, though the passage holds the name, the words of the question and a value that would
fit. So the words in common say nothing about whether there is an answer: who did what does.
Nobody of dev or test is in a training passage; there everybody stands beside several others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from regard.data.builtin import BUILTIN
from regard.data.builtin.generated import Row, identity_of, parted
from regard.data.builtin.world.facts import RELATIONS, SPOUSE, FactTemplate, ask, tell
from regard.data.builtin.world.people import Person, pairs_of_told

SEED = 73
PAIRS = {"train": 400, "dev": 100, "test": 100}
"Nobody is in two of them."
FURTHER = 1_600
"Training passages about people of the training pairs, mixed anew: 400 alone teach no reading."
ANSWERABLE, IMPOSSIBLE = 3, 2
"How many questions of each sort a passage has."
BETWEEN = (
    "The two met in {place} in {year}.",
    "They exchanged letters until {year}.",
    "A festival in {place} brought them together.",
    "In {year} both signed a petition in {place}.",
)

Fact = tuple[FactTemplate, Person]


@cache
def _rows() -> tuple[Row, ...]:
    random = Random(SEED)
    pairs = list(parted(pairs_of_told(sum(PAIRS.values()), random), PAIRS, random))
    known = [person for part, pair in pairs if part == "train" for person in pair]
    pairs += (("train", _two_of(known, random)) for _ in range(FURTHER))
    rows: list[Row] = []
    for part, pair in pairs:
        title = " and ".join(person.name for person in pair)
        rows += (
            {**row, "title": title, "part": part, "group": title} for row in _ask(pair, random)
        )
    return tuple(rows)


@BUILTIN.add(
    "passages",
    generated=True,
    identity=identity_of("passages", _rows),
    columns=("context", "question", "answers", "answer_starts", "impossible", "title"),
)
def passages() -> Iterator[Row]:
    """Passages about made-up people; 3 of 5 questions have their answer in the passage."""
    yield from map(dict, _rows())


def _two_of(people: list[Person], random: Random) -> tuple[Person, Person]:
    while True:
        first, second = random.sample(people, 2)
        if first.surname != second.surname:
            return first, second


def _ask(pair: tuple[Person, Person], random: Random) -> Iterator[Row]:
    relations = random.sample(RELATIONS, 6)
    facts = [(relation, pair[number % 2]) for number, relation in enumerate(relations)]
    context, starts = _passage(facts, pair, random)
    told_of = dict(facts)
    questions = [(relation, told_of[relation]) for relation in random.sample(relations, ANSWERABLE)]
    for relation in random.sample(relations, IMPOSSIBLE):
        questions.append((relation, _other(pair, told_of[relation])))
    random.shuffle(questions)
    for relation, person in questions:
        is_told = told_of[relation] is person
        yield {
            "context": context,
            "question": ask(relation, person, random),
            "answers": [relation.value(person)] if is_told else [],
            "answer_starts": [starts[relation]] if is_told else [],
            "impossible": not is_told,
        }


def _passage(
    facts: list[Fact], pair: tuple[Person, Person], random: Random
) -> tuple[str, dict[FactTemplate, int]]:
    """The text, and where in it each fact stands."""
    ordered = random.choice((_one_after_the_other, _mixed))(facts, random)
    both_are_named = next(n for n, fact in enumerate(ordered) if fact[1] is not ordered[0][1]) + 1
    between_at = random.randint(both_are_named, len(ordered))
    text = ""
    starts: dict[FactTemplate, int] = {}
    last: Fact | None = None
    named: list[Person] = []
    for number, (relation, person) in enumerate(ordered):
        if number == between_at:
            text += _between(pair, random)
            last = None
        called = _called(person, last=last, is_named=person in named, random=random)
        sentence = tell(relation, person, called=called, random=random)
        starts[relation] = len(text) + sentence.start
        text += sentence.sentence + " "
        last = relation, person
        named.append(person)
    if between_at == len(ordered):
        text += _between(pair, random)
    return text.rstrip(), starts


def _between(pair: tuple[Person, Person], random: Random) -> str:
    """What is told of both, with a place and a year that answer nothing."""
    place, year = random.choice(pair).home, random.randint(1850, 1930)
    return random.choice(BETWEEN).format(place=place, year=year) + " "


def _one_after_the_other(facts: list[Fact], random: Random) -> list[Fact]:
    first = random.choice(facts)[1]
    return sorted(_mixed(facts, random), key=lambda fact: fact[1] is not first)


def _mixed(facts: list[Fact], random: Random) -> list[Fact]:
    return random.sample(facts, len(facts))


def _called(person: Person, *, last: Fact | None, is_named: bool, random: Random) -> str:
    """A pronoun only where the sentence before is about the same person and names nobody else."""
    if not is_named:
        return person.name
    if last and last[1] is person and last[0] is not SPOUSE and random.random() < 2 / 3:
        return person.pronoun
    return random.choice((person.name, person.surname))


def _other(pair: tuple[Person, Person], person: Person) -> Person:
    return pair[1] if person is pair[0] else pair[0]
