"""Headlines: summarisation of short reports of invented events into one sentence.

A report opens with the scene and states its facts one by one among unrelated ones. The summary
joins facts from several sentences, so the lead sentence alone is a poor summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.generated import assign_splits, word_list
from regard.data.builtin.world.names import MEN, WOMEN, surnames, towns

SEED = 77
SPLIT_SIZES = {"train": 3_000, "dev": 300, "test": 300}

SCENE = (
    "It was raining in {place} when the news came.",
    "Few people were in the streets of {place} on {day}.",
    "The bells of {place} had just struck noon on {day}.",
    "Nobody in {place} had expected much of this {day}.",
    "In {place} the shops closed early on {day}.",
    "The train from {place} was late again on {day}.",
)
MEANWHILE = (
    "A spokesman for {place} had no comment.",
    "Visitors had come from as far as {place}.",
    "Something like it was last seen in {place} in {year}.",
    "Prices in {place} rose slightly on {day}.",
    "The mayor of {place} sent a telegram.",
    "Photographs will be shown in {place} next {day}.",
)
DAYS = word_list("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = word_list("January March April June July September October December")
BODIES = ("council", "senate", "school board", "harbour board", "parish", "board of trade")
PLANS = (
    *("a stone bridge", "a new hospital", "a public bath", "a second station", "a reading room"),
    *("a tram line", "a sea wall", "a covered market", "a concert hall", "a night school"),
)
FINDS = (
    *("a silver cup", "a bronze helmet", "a clay tablet", "a gold ring", "a stone lion"),
    *("a wooden ship", "a glass bowl", "a painted mask"),
)
FINDERS = ("farmer", "teacher", "student", "baker", "historian", "ferryman", "retired judge")
SPORTS = ("football", "hockey", "chess", "handball", "rowing", "tennis")
WORKS = ("glass works", "shipyard", "paper mill", "brewery", "dye works", "clock factory")
PRIZES = ("Lantern Prize", "Golden Quill", "Harbour Medal", "Meridian Award", "Silver Compass")
WINNERS = ("novelist", "composer", "painter", "botanist", "architect", "photographer")
TITLES = ("The Long Winter", "Open Water", "A Second Meadow", "The Tin Bird", "Salt", "Nine Doors")


class NewsEvent(NamedTuple):
    facts: list[str]
    summary: str


class World(NamedTuple):
    """The names that events draw from."""

    places: list[str]
    families: list[str]


@BUILTIN.add("headlines", generated=True, columns=("document", "summary"))
def headlines() -> Iterator[Row]:
    """Generated reports with a summary that joins facts from several sentences."""
    random = Random(SEED)
    world = World(towns(120, random), surnames(200, random))
    summaries: dict[str, str] = {}
    while len(summaries) < sum(SPLIT_SIZES.values()):
        event = random.choice(EVENTS)(world, random)
        summaries.setdefault(_report(event, world, random), event.summary)
    reports = assign_splits(list(summaries.items()), SPLIT_SIZES, random)
    for split, (document, summary) in reports:
        yield {"document": document, "summary": summary, "split": split}


def _report(event: NewsEvent, world: World, random: Random) -> str:
    """The scene, then the facts in order with unrelated sentences between them."""
    sentences = list(event.facts)
    for aside in random.sample(MEANWHILE, random.randint(1, 3)):
        sentences.insert(random.randint(0, len(sentences)), _fill(aside, world, random))
    return " ".join([_fill(random.choice(SCENE), world, random), *sentences])


def _fill(template: str, world: World, random: Random) -> str:
    return template.format(
        place=random.choice(world.places),
        day=random.choice(DAYS),
        year=random.randint(1880, 1950),
    )


def _decision(world: World, random: Random) -> NewsEvent:
    body, place = random.choice(BODIES), random.choice(world.places)
    plan, failed = random.sample(PLANS, 2)
    many, few = random.randint(20, 40), random.randint(2, 19)
    cost = random.randint(2, 90) * 1000
    verdict, tally = random.choice(
        (
            ("approves", f"In the end {many} members were for it and {few} against."),
            ("rejects", f"In the end {few} members were for it and {many} against."),
        )
    )
    facts = [
        f"The {body} of {place} had met to settle an old question.",
        random.choice((f"At stake was {plan}.", f"On the table lay drawings of {plan}.")),
        random.choice((f"It would cost {cost} crowns.", f"The price is put at {cost} crowns.")),
        f"Years ago {failed} had been refused there.",
        tally,
    ]
    return NewsEvent(facts, f"The {body} of {place} {verdict} {plan} for {cost} crowns.")


def _discovery(world: World, random: Random) -> NewsEvent:
    finder, find = random.choice(FINDERS), random.choice(FINDS)
    home, field = random.sample(world.places, 2)
    age = random.randint(5, 60) * 50
    facts = [
        random.choice((f"A {finder} from {home} was out walking.", f"A {finder} from {home} dug.")),
        f"What came to light in a field near {field} was {find}.",
        random.choice((f"It is {age} years old.", f"Experts put its age at {age} years.")),
        f"A museum in {random.choice(world.places)} would like to buy it.",
    ]
    return NewsEvent(facts, f"A {finder} from {home} finds {find} of {age} years near {field}.")


def _match(world: World, random: Random) -> NewsEvent:
    sport = random.choice(SPORTS)
    winner, loser = random.sample(world.places, 2)
    low = random.randint(0, 5)
    high = low + random.randint(1, 5)
    sides = [(winner, high), (loser, low)]
    random.shuffle(sides)
    facts = [
        f"The {sport} teams of {sides[0][0]} and {sides[1][0]} had not met for years.",
        *(f"For {place} the board showed {points} points at the end." for place, points in sides),
        f"The referee had travelled from {random.choice(world.places)}.",
    ]
    return NewsEvent(facts, f"{winner} beats {loser} by {high} to {low} in {sport}.")


def _closing(world: World, random: Random) -> NewsEvent:
    works, place = random.choice(WORKS), random.choice(world.places)
    people, month = random.randint(3, 90) * 10, random.choice(MONTHS)
    facts = [
        f"For two years the {works} of {place} had waited for orders.",
        random.choice((f"The gates shut in {month}.", f"The last day falls in {month}.")),
        random.choice((f"{people} people are employed there.", f"It has {people} workers.")),
        f"Talks with a buyer from {random.choice(world.places)} had failed.",
    ]
    return NewsEvent(
        facts, f"The {works} of {place} closes in {month} and {people} people lose their work."
    )


def _prize(world: World, random: Random) -> NewsEvent:
    prize, calling, title = random.choice(PRIZES), random.choice(WINNERS), random.choice(TITLES)
    name, other = (
        f"{random.choice(WOMEN + MEN)} {random.choice(world.families)}" for _ in range(2)
    )
    facts = [
        f"The jury of the {prize} had argued for hours.",
        f"In {random.randint(1900, 1950)} the choice had fallen on {other}.",
        f"This time the {calling} {name} was called to the stage.",
        random.choice((f"What had moved the jury was {title}.", f"All spoke of {title}.")),
    ]
    return NewsEvent(facts, f"The {calling} {name} wins the {prize} for {title}.")


EVENTS: tuple[Callable[[World, Random], NewsEvent], ...] = (
    *(_decision, _discovery, _match, _closing, _prize),
)
