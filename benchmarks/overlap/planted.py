"""Planted overlap: rows of a corpus, edited, among its other rows.

A planted pair counts if a plain Levenshtein of its words (characters for short rows) gives 0.8 or
more. It is found if the item is named with a row at least as similar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.overlap.edits import OTHER_WORDS, SAME_WORDS, SHORT_ROWS, Edit

from regard.data.overlap.normalise import normalise
from regard.data.overlap.search import find_overlaps
from regard.data.overlap.similarity import MIN_SIMILARITY, MIN_WORDS

ROW_WORDS = 40


@dataclass(frozen=True)
class Planted:
    """Planted pairs of one edit: how many there are, are found, are named below 0.8."""

    pairs: int
    found: int
    named: int
    named_below: int


def plant_and_search(texts: Sequence[str], *, rows: int, seed: int = 0) -> dict[str, Planted]:
    """For each edit, the first 40 (or 4 to 7) words of `rows` rows, edited, among all others."""
    random = Random(seed)
    words = [text.split() for text in texts]
    others = [word for each in words for word in each]
    lengthy = [
        i for i, each in enumerate(words) if len(normalise(" ".join(each)).split()) >= ROW_WORDS
    ]
    results = {}
    for name, edit in {**SAME_WORDS, **OTHER_WORDS}.items():
        chosen = random.sample(lengthy, min(rows, len(lengthy)))
        cut = [words[i][:ROW_WORDS] for i in chosen]
        results[name] = _search(texts, chosen, cut, edit, others, random)
    for name, edit in SHORT_ROWS.items():
        chosen = random.sample(lengthy, min(rows, len(lengthy)))
        cut = [words[i][: random.randint(4, MIN_WORDS - 1)] for i in chosen]
        results[f"short rows: {name}"] = _search(texts, chosen, cut, edit, others, random)
    return results


def _search(
    texts: Sequence[str],
    chosen: Sequence[int],
    rows: Sequence[list[str]],
    edit: Edit,
    others: Sequence[str],
    random: Random,
) -> Planted:
    items = [" ".join(row) for row in rows]
    edited = [edit(row, random, others) for row in rows]
    left_out = set(chosen)
    train = [text for i, text in enumerate(texts) if i not in left_out] + edited
    random.shuffle(train)
    named = {each.item: each for each in find_overlaps(train, {"test": items})["test"]}
    pairs = {i: reference_similarity(items[i], edited[i]) for i in range(len(items))}
    pairs = {i: similarity for i, similarity in pairs.items() if similarity >= MIN_SIMILARITY}
    found = [
        i for i, similarity in pairs.items() if i in named and named[i].similarity >= similarity
    ]
    below = [
        each
        for each in named.values()
        if reference_similarity(items[each.item], train[each.row]) < MIN_SIMILARITY
    ]
    return Planted(len(pairs), len(found), len(named), len(below))


def reference_similarity(first: str, second: str) -> float:
    """As it is defined, by a plain Levenshtein."""
    texts = normalise(first), normalise(second)
    words = texts[0].split(), texts[1].split()
    sides: tuple[Sequence[str], Sequence[str]] = words
    if min(map(len, words)) < MIN_WORDS:
        sides = texts
    longer = max(map(len, sides))
    return (longer - levenshtein(*sides)) / longer


def levenshtein(first: Sequence[str], second: Sequence[str]) -> int:
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        above, row[0] = row[0], i
        for j, b in enumerate(second, start=1):
            above, row[j] = row[j], min(above + (a != b), row[j] + 1, row[j - 1] + 1)
    return row[-1]
