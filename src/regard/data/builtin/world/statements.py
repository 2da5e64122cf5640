"""Statements: a short passage about two people and a claim that it bears out or not.

Two sorts of fact are told of both people. A claim gives somebody their own fact or the other's,
plainly or denied, half of all claims being true. Claim and passage share as many words whether it
is true or not, and the claim alone tells nothing: who goes with what decides, and the word not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from regard.data.builtin import BUILTIN
from regard.data.builtin.generated import Row, identity_of, parted
from regard.data.builtin.world.facts import RELATIONS, FactTemplate, article, tell
from regard.data.builtin.world.people import Person, pairs_of_told

SEED = 74
PASSAGES = {"train": 600, "dev": 100, "test": 100}
DENIED = 0.3


@cache
def _rows() -> tuple[Row, ...]:
    random = Random(SEED)
    pairs = pairs_of_told(sum(PASSAGES.values()), random)
    rows: list[Row] = []
    for part, pair in parted(pairs, PASSAGES, random):
        group = " and ".join(person.name for person in pair)
        rows += ({**row, "part": part, "group": group} for row in _claims(pair, random))
    return tuple(rows)


@BUILTIN.add(
    "statements",
    generated=True,
    identity=identity_of("statements", _rows),
    columns=("passage", "claim", "label"),
)
def statements() -> Iterator[Row]:
    """A passage about two made-up people and a claim: does the passage say so? yes or no."""
    yield from map(dict, _rows())


def _claims(pair: tuple[Person, Person], random: Random) -> Iterator[Row]:
    differing = [one for one in RELATIONS if one.value(pair[0]) != one.value(pair[1])]
    relations = random.sample(differing, 2)
    facts = [(relation, person) for relation in relations for person in pair]
    passage = " ".join(
        tell(relation, person, called=person.name, random=random).sentence
        for relation, person in random.sample(facts, len(facts))
    )
    labels = random.sample(("yes", "yes", "no", "no"), 4)
    for label, (relation, person) in zip(labels, facts, strict=True):
        is_denied = random.random() < DENIED
        other = pair[1] if person is pair[0] else pair[0]
        whose = person if (label == "yes") != is_denied else other
        template = relation.denial if is_denied else relation.claim
        yield {
            "passage": passage,
            "claim": _claim(template, relation, person=person, whose=whose),
            "label": label,
        }


def _claim(template: str, relation: FactTemplate, *, person: Person, whose: Person) -> str:
    value = relation.value(whose)
    return template.format(name=person.name, value=value, a=article(value))
