"""Look-ups: every question has its note, synonyms find it, common words find some."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from math import log

import numpy as np

from regard.data.builtin.lookups import THINGS, TIMES, TROUBLES, lookup_notes, lookups


class Bm25:
    """Ranks documents by the words of a query; k1 = 1.2, b = 0.75."""

    def __init__(self, documents: list[str]) -> None:
        self.lengths = np.array([len(words(document)) for document in documents])
        self.counts: dict[str, dict[int, int]] = defaultdict(dict)
        for place, document in enumerate(documents):
            for word, count in Counter(words(document)).items():
                self.counts[word][place] = count

    def order(self, query: str) -> list[int]:
        scores = np.zeros(len(self.lengths))
        longer = 0.25 + 0.75 * self.lengths / self.lengths.mean()
        for word in words(query):
            holders = self.counts.get(word, {})
            rarity = log(1 + (len(scores) - len(holders) + 0.5) / (len(holders) + 0.5))
            for place, count in holders.items():
                scores[place] += rarity * count * 2.2 / (count + 1.2 * longer[place])
        return list(np.argsort(-scores, kind="stable"))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def meaning(text: str) -> tuple[str, ...]:
    """The concepts a text words, whichever way."""
    return tuple(
        next(one for one in concepts if re.search(rf"\b(?:{one})\b", text))
        for concepts in (THINGS, TROUBLES, TIMES)
    )


def test_every_document_is_in_the_collection_under_its_number() -> None:
    notes = {row["id"]: row["text"] for row in lookup_notes()}
    assert len(notes) == len(set(notes.values())) == 2_000
    assert all(notes[row["document_id"]] == row["document"] for row in lookups())
    asked = [row["document_id"] for row in lookups()]
    assert len(set(asked)) == len(asked) < len(notes)


def test_whoever_knows_the_synonyms_finds_every_note() -> None:
    by_meaning = Counter(meaning(row["text"]) for row in lookup_notes())
    assert by_meaning.most_common(1)[0][1] == 1
    assert all(meaning(row["query"]) == meaning(row["document"]) for row in lookups())


def test_every_wording_is_seen_in_training() -> None:
    seen = " ".join(
        f"{row['query']} {row['document']}" for row in lookups() if row["part"] == "train"
    )
    for concept in (*THINGS, *TROUBLES, *TIMES):
        assert all(wording in seen for wording in concept.split("|"))


def test_common_words_find_some_notes_and_not_all() -> None:
    index = Bm25([row["text"] for row in lookup_notes()])
    judged = [row for row in lookups() if row["part"] == "test"]
    ranks = np.array([index.order(r["query"]).index(int(r["document_id"])) for r in judged])
    assert 0.05 < np.mean(ranks == 0) < 0.6
    assert 0.3 < np.mean(ranks < 10) < 0.85
