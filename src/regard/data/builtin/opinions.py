"""Opinions: sentiment of short reviews, decided by negation and word order, not by words alone.

    clause        praise or blame of one aspect, said plainly or by negating the opposite
    contrast      two clauses that disagree; the connective says which of them is the verdict

"not" may negate a word ("by no means dull") or not ("could not be more charming"), and the deciding
clause comes first or last. So a bag of words solves only the plain ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.generated import assign_splits, word_list

SEED = 75
SPLIT_SIZES = {"train": 4_000, "dev": 500, "test": 500}
CONTRAST_RATE, NEGATION_RATE, PSEUDO_NEGATION_RATE = 0.25, 0.15, 0.25
"Of opinions with two clauses; of negated clauses; of other clauses that look negated."

WORDS = {
    "positive": word_list(
        """brilliant charming clever delightful elegant excellent fresh funny gripping lively
        memorable moving superb tender thoughtful touching vivid warm witty wonderful"""
    ),
    "negative": word_list(
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
PSEUDO_NEGATION = (
    "{aspect} could not be more {word}",
    "{aspect} is nothing if not {word}",
    "I have never found {aspect} so {word}",
    "{aspect} is nothing short of {word}",
    "nobody will deny that {aspect} is {word}",
    "there is no doubt that {aspect} is {word}",
)
NEGATION = (
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


@BUILTIN.add("opinions", generated=True, columns=("text", "label"))
def opinions() -> Iterator[Row]:
    """Generated reviews, positive or negative by negation and contrast as well as by words."""
    random = Random(SEED)
    labels: dict[str, str] = {}
    while len(labels) < sum(SPLIT_SIZES.values()):
        label = ("positive", "negative")[len(labels) % 2]
        labels.setdefault(opinion(label, random), label)
    for split, text in assign_splits(list(labels), SPLIT_SIZES, random):
        yield {"text": text, "label": labels[text], "split": split}


def opinion(label: str, random: Random) -> str:
    thing = random.choice(list(ASPECTS))
    aspects = random.sample(ASPECTS[thing].split(","), 2)
    verdict = _clause(label, aspects[0], random)
    if random.random() < CONTRAST_RATE:
        other = _clause(OPPOSITE[label], aspects[1], random)
        verdict = random.choice(CONTRAST).format(verdict=verdict, other=other)
    sentences = [verdict[0].upper() + verdict[1:] + "."]
    asides = [aside.format(thing=thing) for aside in random.sample(ASIDE, random.randint(0, 2))]
    for aside in asides:
        sentences.insert(random.randint(0, len(sentences)), aside)
    return " ".join(sentences)


def _clause(label: str, aspect: str, random: Random) -> str:
    if random.random() < NEGATION_RATE:
        template, word = random.choice(NEGATION), random.choice(WORDS[OPPOSITE[label]])
    else:
        templates = PSEUDO_NEGATION if random.random() < PSEUDO_NEGATION_RATE else PLAIN
        template, word = random.choice(templates), random.choice(WORDS[label])
    return template.format(aspect=aspect, word=word)
