"""Phrases: a toy translation from simple English into an invented language with a grammar.

    the old sailor sees two red boats near the river because the king sleeps
    king-the sleeps because sailor-the old boats red two river-the near sees       (word by word)

Verbs come last, adjectives follow their noun and agree with it, prepositions become postpositions,
"not" ends its clause, articles become endings, and a "because" clause moves to the front. The rules
are few and have no exceptions; longer sentences need longer dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.generated import assign_splits, word_list

SEED = 76
SPLIT_SIZES = {"train": 6_000, "dev": 500, "test": 500}
MAX_WORDS = 30
"Maximum length of a source sentence."

NOUNS = word_list(
    """sailor king farmer baker doctor painter teacher child soldier queen dog cat horse bird fox
    goat bear fish boat house garden river tree lamp letter song book stone ring table"""
)
PLURALS = {"child": "children", "fox": "foxes", "fish": "fishes"}
ACTS = word_list(
    """sees finds paints carries follows hears loves sells wants draws hides keeps buys guards"""
)
STATES = word_list("sleeps sings laughs waits falls dances works rests")
ADJECTIVES = word_list(
    """old young red green small big happy sad quick slow tall strange quiet rich poor cold warm
    dark"""
)
PREPOSITIONS = word_list("near under behind with without above")
COUNTS = word_list("one two three many")
ADVERBS = word_list("today often never slowly quietly again tomorrow here")
LINKS = word_list("and but while because")
REORDERED = "because"
VOWELS, CONSONANTS = "aeiou", "bdfgklmnprstvz"
CLASSES = ("o", "e")
"Endings of the two noun classes; adjectives and verbs agree with them."


@dataclass(frozen=True)
class NounPhrase:
    source: str
    target: str
    noun_class: str
    is_plural: bool


@BUILTIN.add("phrases", generated=True, columns=("source", "target"))
def phrases() -> Iterator[Row]:
    """Simple English and an invented language: other word order, agreement, 3 to 30 words."""
    random = Random(SEED)
    targets: dict[str, str] = {}
    while len(targets) < sum(SPLIT_SIZES.values()):
        source, target = sentence(random)
        if len(source.split()) <= MAX_WORDS:
            targets.setdefault(source, target)
    for split, (source, target) in assign_splits(list(targets.items()), SPLIT_SIZES, random):
        yield {"source": source, "target": target, "split": split}


@cache
def lexicon() -> dict[str, str]:
    """The stem of every word: two or three syllables, all different."""
    words = [*NOUNS, *ACTS, *STATES, *ADJECTIVES, *PREPOSITIONS, *COUNTS, *ADVERBS, *LINKS, "not"]
    random = Random(SEED)
    syllables = [consonant + vowel for consonant, vowel in product(CONSONANTS, VOWELS)]
    stems: list[str] = []
    while len(stems) < len(words):
        stem = "".join(random.sample(syllables, random.choice((2, 2, 3))))
        if stem not in stems:
            stems.append(stem)
    return dict(zip(words, stems, strict=True))


def noun_class(noun: str) -> str:
    return CLASSES[NOUNS.index(noun) % 2]


def sentence(random: Random) -> tuple[str, str]:
    """One to four clauses; a reason precedes everything it explains."""
    source, target = _clause(random)
    for _ in range(random.choices((0, 1, 2, 3), (35, 30, 20, 15))[0]):
        link = random.choice(LINKS)
        next_source, next_target = _clause(random)
        source = f"{source} {link} {next_source}"
        clauses = (next_target, target) if link == REORDERED else (target, next_target)
        target = f" {lexicon()[link]} ".join(clauses)
    return source, target


def _clause(random: Random) -> tuple[str, str]:
    subject = _noun_phrase(random, max_adjectives=2)
    is_act = random.random() < 2 / 3
    verb = random.choice(ACTS if is_act else STATES)
    is_negated = random.random() < 1 / 6
    source = [subject.source, _verb(verb, is_plural=subject.is_plural, is_negated=is_negated)]
    target = [subject.target]
    if is_act:
        patient = _noun_phrase(random, max_adjectives=2)
        source.append(patient.source)
        target.append(patient.target)
    if random.random() < 1 / 3:
        preposition = random.choice(PREPOSITIONS)
        place = _noun_phrase(random, max_adjectives=1)
        source += [preposition, place.source]
        target += [place.target, lexicon()[preposition]]
    if random.random() < 1 / 4:
        adverb = random.choice(ADVERBS)
        source.append(adverb)
        target.insert(0, lexicon()[adverb])
    target.append(lexicon()[verb] + subject.noun_class + "m" * subject.is_plural)
    target += [lexicon()["not"]] * is_negated
    return " ".join(source), " ".join(target)


def _verb(verb: str, *, is_plural: bool, is_negated: bool) -> str:
    """sees, see, does not see, do not see"""
    bare = {"carries": "carry"}.get(verb, verb.removesuffix("s"))
    if is_negated:
        return f"{'do' if is_plural else 'does'} not {bare}"
    return bare if is_plural else verb


def _noun_phrase(random: Random, *, max_adjectives: int) -> NounPhrase:
    noun = random.choice(NOUNS)
    count = random.choice(("the", "the", "the", "a", "a", *COUNTS))
    adjectives = random.sample(ADJECTIVES, random.choice((0, 0, 1, max_adjectives)))
    is_plural = count in ("two", "three", "many")
    ending = noun_class(noun) + "s" * is_plural
    target = [lexicon()[noun] + ending + "l" * (count == "the")]
    target += (lexicon()[adjective] + ending for adjective in adjectives)
    if count in COUNTS:
        target.append(lexicon()[count])
    first = adjectives[0] if adjectives else noun
    article = "an" if count == "a" and first[0] in VOWELS else count
    source = [article, *adjectives, PLURALS.get(noun, noun + "s") if is_plural else noun]
    return NounPhrase(" ".join(source), " ".join(target), noun_class(noun), is_plural)
