"""Statements: entailment of a claim by a short passage about two people.

The passage states two types of fact of both people. A claim attributes to a person their own fact
or the other's, plainly or negated; half of all claims are true. True and false claims share equally
many words with the passage, and the claim alone reveals nothing: who goes with what decides, and
the word "not".
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.generated import assign_splits
from regard.data.builtin.world.facts import FACT_TEMPLATES, FactTemplate, article, fact_sentence
from regard.data.builtin.world.people import Person, seen_pairs

SEED = 74
PASSAGES = {"train": 600, "dev": 100, "test": 100}
NEGATION_RATE = 0.3


@BUILTIN.add("statements", generated=True, columns=("passage", "claim", "label"))
def statements() -> Iterator[Row]:
    """A passage about two invented people and a claim: does the passage entail it? yes or no."""
    random = Random(SEED)
    pairs = seen_pairs(sum(PASSAGES.values()), random)
    for split, pair in assign_splits(pairs, PASSAGES, random):
        group = " and ".join(person.name for person in pair)
        for row in _claims(pair, random):
            yield {**row, "split": split, "group": group}


def _claims(pair: tuple[Person, Person], random: Random) -> Iterator[Row]:
    differing = [fact for fact in FACT_TEMPLATES if fact.value(pair[0]) != fact.value(pair[1])]
    templates = random.sample(differing, 2)
    facts = [(fact, person) for fact in templates for person in pair]
    passage = " ".join(
        fact_sentence(fact, person, called=person.name, random=random).sentence
        for fact, person in random.sample(facts, len(facts))
    )
    labels = random.sample(("yes", "yes", "no", "no"), 4)
    for label, (fact, person) in zip(labels, facts, strict=True):
        is_negated = random.random() < NEGATION_RATE
        other = pair[1] if person is pair[0] else pair[0]
        owner = person if (label == "yes") != is_negated else other
        claim = fact.denial if is_negated else fact.claim
        yield {
            "passage": passage,
            "claim": _fill(claim, fact, person=person, owner=owner),
            "label": label,
        }


def _fill(claim: str, fact: FactTemplate, *, person: Person, owner: Person) -> str:
    value = fact.value(owner)
    return claim.format(name=person.name, value=value, a=article(value))
