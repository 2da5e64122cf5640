"""Tables as strangers make them, for tests of recognition: generated words, odd columns."""

from __future__ import annotations

import random
from typing import Any

ADJECTIVES = {
    "good": ["great", "lovely", "fine", "superb"],
    "bad": ["dull", "awful", "poor", "lame"],
}
NOUNS = ["film", "book", "play", "song", "story", "game", "show", "plot"]
PLACES = ["Paris", "Rome", "Oslo", "Lima", "Cairo", "Delhi", "Quito", "Accra"]
GERMAN = {
    **{"the": "der", "old": "alte", "red": "rote", "man": "Mann", "dog": "Hund", "sees": "sieht"},
    **{"hears": "hört", "a": "einen", "tree": "Baum", "bird": "Vogel", "near": "nahe"},
    **{"house": "Haus", "small": "kleinen", "big": "großen", "and": "und", "river": "Fluss"},
}

Row = dict[str, Any]


def review(generator: random.Random, mood: str) -> str:
    words = [
        f"{generator.choice(['the', 'this', 'that'])} {generator.choice(NOUNS)} was "
        f"{generator.choice(ADJECTIVES[mood])}"
        for _ in range(generator.randint(2, 4))
    ]
    return f"{', and '.join(words)}, {generator.randint(100, 99999)} times."


def reviews(count: int = 200, *, seed: int = 0, good: float = 0.5) -> list[Row]:
    """A text and its mood, with authors, row numbers, dates, and a column that never changes."""
    generator = random.Random(seed)
    rows = []
    for number in range(count):
        mood = "good" if generator.random() < good else "bad"
        rows.append(
            {
                "": number,
                "Bewertung": review(generator, mood),
                "Urteil": mood,
                "Verfasser": f"writer {generator.randint(1, 40)}",
                "Tag": f"2024-0{generator.randint(1, 9)}-1{generator.randint(0, 9)}",
                "Quelle": "web",
            }
        )
    return rows


def rated(count: int = 200, *, seed: int = 0) -> list[Row]:
    generator = random.Random(seed)
    rows = []
    for number in range(count):
        mood = generator.choice(["good", "bad"])
        points = round(generator.gauss(4 if mood == "good" else 2, 0.7), 2)
        rows.append({"id": 1000 + number, "note": review(generator, mood), "points": points})
    return rows


def pairs(count: int = 200, *, seed: int = 0) -> list[Row]:
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        moods = [generator.choice(["good", "bad"]) for _ in range(2)]
        first, second = (review(generator, mood) for mood in moods)
        label = "entails" if moods[0] == moods[1] else "contradicts"
        rows.append({"sentence1": first, "sentence2": second, "gold_label": label})
    return rows


def questions(count: int = 120, *, seed: int = 0) -> list[Row]:
    """Answers stand in their passages; some questions have none."""
    generator = random.Random(seed)
    rows = []
    for number in range(count):
        place, other = generator.sample(PLACES, 2)
        passage = (
            f"Writer {number % 40} was born in {place} long ago. She moved to {other} later, where "
            f"she wrote {generator.randint(2, 99)} books about the weather of the coast."
        )
        answers = [] if number % 5 == 0 else [place]
        question = f"Where was writer {number % 40} born?"
        rows.append({"passage": passage, "query": question, "answer": answers})
    return rows


def translations(count: int = 200, *, seed: int = 0) -> list[Row]:
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        words = generator.choices([*GERMAN], k=generator.randint(5, 9))
        rows.append({"x": " ".join(words), "y": " ".join(GERMAN[word] for word in words)})
    return rows


def summaries(count: int = 120, *, seed: int = 0) -> list[Row]:
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        sentences = [review(generator, generator.choice(["good", "bad"])) for _ in range(6)]
        rows.append({"story": " ".join(sentences), "gist": sentences[0]})
    return rows
