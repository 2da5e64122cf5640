"""Look-ups: retrieval of the one note that answers a short question in other words.

A note has a thing, a trouble and a time; question and note draw their wordings independently. Most
notes share two of the three with others. So common words find some notes, and only synonyms find
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.generated import assign_splits

SEED = 78
NOTES = 2_000
SPLIT_SIZES = {"train": 1_200, "dev": 200, "test": 200}
"Questions, each about another note; the other notes answer none."

THINGS = (
    *("boat|vessel|skiff", "house|dwelling|cottage", "coat|jacket|overcoat", "road|street|lane"),
    *(
        "horse|mare|pony",
        "baby|infant|newborn",
        "doctor|physician|medic",
        "car|automobile|motorcar",
    ),
    *("film|movie|picture", "shop|store|boutique", "forest|wood|grove", "stove|oven|furnace"),
    *("sofa|couch|settee", "hat|cap|bonnet", "sea|ocean|gulf", "field|meadow|pasture"),
    *("cellar|basement|vault", "engine|motor|machine", "painting|canvas|portrait"),
    *("watch|clock|chronometer", "hotel|inn|guesthouse", "path|trail|track", "barn|shed|stable"),
    "soup|broth|stew",
)
TROUBLES = (
    *("is broken|does not work|is out of order", "smells|gives off an odour|stinks"),
    *("is too loud|makes noise|is deafening", "is dirty|is full of grime|is filthy"),
    *("was stolen|was taken by thieves|got robbed", "costs too much|is expensive|is dear"),
    *("is wet|is soaked|is drenched", "is cold|is freezing|is chilly"),
    *("is empty|holds nothing|is deserted", "looks old|is worn out|seems shabby"),
    *("is lost|cannot be found|went missing", "caught fire|is burning|stands in flames"),
    *("is too small|is tiny|lacks room", "shakes|trembles|wobbles"),
)
TIMES = (
    *("in winter|during the frost|when snow lies", "at night|after dark|past midnight"),
    *("in the morning|at dawn|around sunrise", "on holidays|during vacation|on days off"),
    *("in summer|during the heat|in hot weather", "at the weekend|on Saturdays|on Sundays"),
    *("in a storm|when wind blows|during a gale", "every year|annually|each spring"),
)
ADVICE = (
    "Ask a neighbour first.",
    "Keep the receipt.",
    "Write down what you see.",
    "A letter to the town hall helps.",
    "Patience is cheaper than tools.",
    "Two people should do this together.",
    "Most cases settle themselves in a week.",
    "Call before you come.",
)
NOTE = (
    "What to do if the {thing} {trouble} {time}. {advice} A {again} is nothing unusual.",
    "The {thing} {trouble} {time}: {advice} The same goes for any other {again}.",
    "Advice for {time}. If a {thing} {trouble}, wait. {advice} No {again} is like another.",
)
QUESTION = (
    "My {thing} {trouble} {time}, what now?",
    "Who can help when {time} the {thing} {trouble}?",
    "The {thing} {trouble} {time}. Any idea?",
)

WORDING_WEIGHTS = (6, 1, 1)
"Sampling weights: the first wording is the most frequent."

Topic = tuple[str, str, str]
"(thing, trouble, time), each with all its wordings"


@cache
def _notes() -> tuple[tuple[Topic, str], ...]:
    random = Random(SEED)
    topics = random.sample(list(product(THINGS, TROUBLES, TIMES)), NOTES)
    return tuple((topic, _note(topic, random)) for topic in topics)


@BUILTIN.add("lookups", generated=True, columns=("query", "document", "document_id"))
def lookups() -> Iterator[Row]:
    """Generated questions, each with the one note of `lookup-notes` that answers it."""
    random = Random(SEED + 1)
    answering = random.sample(range(NOTES), sum(SPLIT_SIZES.values()))
    for split, number in assign_splits(answering, SPLIT_SIZES, random):
        topic, note = _notes()[number]
        yield {
            "query": _question(topic, random),
            "document": note,
            "document_id": str(number),
            "split": split,
        }


@BUILTIN.add("lookup-notes", generated=True, columns=("id", "text"))
def lookup_notes() -> Iterator[Row]:
    """The collection that `lookups` search, 2,000 notes."""
    for number, (_, text) in enumerate(_notes()):
        yield {"id": str(number), "text": text}


def _note(topic: Topic, random: Random) -> str:
    """Names the thing twice, in two wordings."""
    _, trouble, time = _choose_wordings(topic, random)
    thing, again = random.sample(topic[0].split("|"), 2)
    return random.choice(NOTE).format(
        thing=thing, trouble=trouble, time=time, again=again, advice=random.choice(ADVICE)
    )


def _question(topic: Topic, random: Random) -> str:
    thing, trouble, time = _choose_wordings(topic, random)
    return random.choice(QUESTION).format(thing=thing, trouble=trouble, time=time)


def _choose_wordings(topic: Topic, random: Random) -> tuple[str, str, str]:
    thing, trouble, time = (
        random.choices(wordings.split("|"), WORDING_WEIGHTS)[0] for wordings in topic
    )
    return thing, trouble, time
