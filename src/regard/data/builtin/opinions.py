"""Opinions: short reviews whose verdict follows from word order, not from which words occur.

    clause        praise or blame of one aspect, said plainly or by denying the opposite
    contrast      two clauses that disagree; the connective says which of them is the verdict

"not" may turn a word round ("by no means dull") or not ("could not be more charming"), and the
clause that decides comes first or last. So a bag of words gets the plain ones alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from regard.data.builtin import BUILTIN
from regard.data.builtin.generated import Row, identity_of, listed, parted

SEED = 75
PARTS = {"train": 4_000, "dev": 500, "test": 500}
CONTRASTED, DENIED, ADORNED = 0.25, 0.15, 0.25
"Shares: of opinions with two clauses; of clauses that deny; of plain clauses that look denied."

WORDS = {
    "positive": listed(
        """brilliant charming clever delightful elegant excellent fresh funny gripping lively
        memorable moving superb tender thoughtful touching vivid warm witty wonderful"""
    ),
    "negative": listed(
        """awful bland boring clumsy confused dreadful dull flat forced lazy lifeless messy poor
        predictable shallow silly stale tedious tiresome weak"""
    ),
}
OPPOSITE = {"positive": "negative", "negative": "positive"}
ASPECTS = {
    "film": "the acting,the camera work,the cast,the dialogue,the ending,the plot,the score",
    "play": "the acting,the first act,the last act,the lighting,the staging,the text,the cast",
    "novel": "the dialogue,the first chapter,the hero,the language,the plot,the ending,the style",
    "album": "the first song,the booklet,the production,the rhythm,the singing,the sound,the mix",
    "exhibition": "the catalogue,the choice of works,the lighting,the main room,the guide,the idea",
}
PLAIN = (
    "{aspect} is {word}",
    "{aspect} is {word} from beginning to end",
    "I found {aspect} {word}",
    "{aspect} seemed {word} to me",
    "I would call {aspect} {word}",
)
LOOKS_DENIED = (
    "{aspect} could not be more {word}",
    "{aspect} is nothing if not {word}",
    "I have never found {aspect} so {word}",
    "{aspect} is nothing short of {word}",
    "nobody will deny that {aspect} is {word}",
    "there is no doubt that {aspect} is {word}",
)
DENIAL = (
    "{aspect} is not {word}",
    "{aspect} is by no means {word}",
    "there is nothing {word} about {aspect}",
    "nobody will claim that {aspect} is {word}",
    "I could not find {aspect} {word}",
    "{aspect} is anything but {word}",
    "I have never thought of {aspect} as {word}",
    "there is no reason to call {aspect} {word}",
)
CONTRAST = (
    "{other}, but {verdict}",
    "although {other}, {verdict}",
    "{verdict}, even though {other}",
    "{verdict}, and it hardly matters that {other}",
    "some say that {other}, yet in truth {verdict}",
    "I had heard that {other}; instead {verdict}",
    "{verdict}, whatever those say who think that {other}",
    "in spite of the rumour that {other}, {verdict}",
)
ASIDE = (
    "We went on a Tuesday.",
    "A friend gave me the tickets.",
    "This is the second {thing} I tried this month.",
    "The {thing} has been talked about for weeks.",
    "I read nothing about the {thing} before.",
    "My sister came along.",
    "It rained all evening.",
)


@cache
def _rows() -> tuple[Row, ...]:
    random = Random(SEED)
    label_of: dict[str, str] = {}
    while len(label_of) < sum(PARTS.values()):
        label = ("positive", "negative")[len(label_of) % 2]
        label_of.setdefault(opinion(label, random), label)
    texts = parted(list(label_of), PARTS, random)
    return tuple({"text": text, "label": label_of[text], "part": part} for part, text in texts)


@BUILTIN.add(
    "opinions",
    generated=True,
    identity=identity_of("opinions", _rows),
    columns=("text", "label"),
)
def opinions() -> Iterator[Row]:
    """Made-up reviews, positive or negative by negation and contrast as well as by words."""
    yield from map(dict, _rows())


def opinion(label: str, random: Random) -> str:
    thing = random.choice(list(ASPECTS))
    aspects = random.sample(ASPECTS[thing].split(","), 2)
    verdict = _clause(label, aspects[0], random)
    if random.random() < CONTRASTED:
        other = _clause(OPPOSITE[label], aspects[1], random)
        verdict = random.choice(CONTRAST).format(verdict=verdict, other=other)
    sentences = [verdict[0].upper() + verdict[1:] + "."]
    asides = [aside.format(thing=thing) for aside in random.sample(ASIDE, random.randint(0, 2))]
    for aside in asides:
        sentences.insert(random.randint(0, len(sentences)), aside)
    return " ".join(sentences)


def _clause(label: str, aspect: str, random: Random) -> str:
    if random.random() < DENIED:
        template, word = random.choice(DENIAL), random.choice(WORDS[OPPOSITE[label]])
    else:
        templates = LOOKS_DENIED if random.random() < ADORNED else PLAIN
        template, word = random.choice(templates), random.choice(WORDS[label])
    return template.format(aspect=aspect, word=word)
