"""Edits of a row, from none to one word in seven: what becomes of copies in real data sets."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from random import Random

Edit = Callable[[list[str], Random, Sequence[str]], str]
"""The words of a row, a generator of random numbers and a corpus' words, as frequent as there → the
edited row."""

SPACES = (" ", "  ", "\t", "\u00a0", "\u2009", "\n")
MARKS = ".!?;:…\"”)'"


def unchanged(words: list[str], random: Random, others: Sequence[str]) -> str:
    return " ".join(words)


def case(words: list[str], random: Random, others: Sequence[str]) -> str:
    changes: list[Callable[[str], str]] = [str.upper, str.lower, str.capitalize]
    return " ".join(random.choice(changes)(word) for word in words)


def comma_after_each_word(words: list[str], random: Random, others: Sequence[str]) -> str:
    return " ".join(f"{word}," for word in words)


def punctuation(words: list[str], random: Random, others: Sequence[str]) -> str:
    return " ".join(
        word + random.choice(MARKS) if random.random() < 0.5 else word for word in words
    )


def spaces_and_unicode(words: list[str], random: Random, others: Sequence[str]) -> str:
    """Other spaces, zero-width marks, full-width letters, accents as marks of their own."""
    forms = [
        lambda word: word,
        lambda word: unicodedata.normalize("NFD", word),
        lambda word: "".join(
            chr(ord(letter) + 0xFEE0) if "a" <= letter.lower() <= "z" else letter for letter in word
        ),
        lambda word: word + "\u200b",
    ]
    return "".join(random.choice(forms)(word) + random.choice(SPACES) for word in words)


def _other_word(word: str, random: Random, others: Sequence[str]) -> str:
    return next(new for new in iter(lambda: random.choice(others), None) if new != word)


def one_in_ten_changed(words: list[str], random: Random, others: Sequence[str]) -> str:
    changed = set(random.sample(range(len(words)), max(1, len(words) // 10)))
    return " ".join(
        _other_word(word, random, others) if i in changed else word for i, word in enumerate(words)
    )


def every_seventh_changed(words: list[str], random: Random, others: Sequence[str]) -> str:
    first = random.randrange(7)
    return " ".join(
        _other_word(word, random, others) if i % 7 == first else word
        for i, word in enumerate(words)
    )


def one_in_seven_changed(words: list[str], random: Random, others: Sequence[str]) -> str:
    changed = set(random.sample(range(len(words)), max(1, len(words) // 7)))
    return " ".join(
        _other_word(word, random, others) if i in changed else word for i, word in enumerate(words)
    )


def one_in_seven_deleted(words: list[str], random: Random, others: Sequence[str]) -> str:
    deleted = set(random.sample(range(len(words)), max(1, len(words) // 7)))
    return " ".join(word for i, word in enumerate(words) if i not in deleted)


def one_in_seven_inserted(words: list[str], random: Random, others: Sequence[str]) -> str:
    edited = list(words)
    for _ in range(max(1, len(words) // 7)):
        edited.insert(random.randrange(len(edited) + 1), random.choice(others))
    return " ".join(edited)


def neighbours_swapped(words: list[str], random: Random, others: Sequence[str]) -> str:
    """Three pairs in forty words."""
    edited = list(words)
    for at in random.sample(range(0, len(words) - 1, 2), max(1, len(words) // 13)):
        edited[at], edited[at + 1] = edited[at + 1], edited[at]
    return " ".join(edited)


def words_before_and_after(words: list[str], random: Random, others: Sequence[str]) -> str:
    count = max(1, len(words) // 10)
    return " ".join([*random.choices(others, k=count), *words, *random.choices(others, k=count)])


def typing_errors(words: list[str], random: Random, others: Sequence[str]) -> str:
    """A letter doubled in one word in seven."""
    edited = list(words)
    for at in random.sample(range(len(words)), max(1, len(words) // 7)):
        place = random.randrange(len(edited[at]))
        edited[at] = edited[at][: place + 1] + edited[at][place:]
    return " ".join(edited)


def one_letter_changed(words: list[str], random: Random, others: Sequence[str]) -> str:
    text = " ".join(words)
    letters = [i for i, letter in enumerate(text) if letter.isalpha()]
    at = random.choice(letters)
    return (
        text[:at] + random.choice([x for x in "aeinorst" if x != text[at].lower()]) + text[at + 1 :]
    )


SAME_WORDS: dict[str, Edit] = {
    "unchanged": unchanged,
    "case": case,
    "a comma after each word": comma_after_each_word,
    "other punctuation": punctuation,
    "white space and Unicode forms": spaces_and_unicode,
}
"Exact: the words stay."
OTHER_WORDS: dict[str, Edit] = {
    "one word in ten changed": one_in_ten_changed,
    "one word in seven changed": one_in_seven_changed,
    "every seventh word changed": every_seventh_changed,
    "one word in seven deleted": one_in_seven_deleted,
    "one word in seven inserted": one_in_seven_inserted,
    "neighbours swapped": neighbours_swapped,
    "words before and after": words_before_and_after,
    "typing errors": typing_errors,
}
"Near."
SHORT_ROWS: dict[str, Edit] = {
    "unchanged": unchanged,
    "a comma after each word": comma_after_each_word,
    "one letter changed": one_letter_changed,
}
"Of rows under eight words."
