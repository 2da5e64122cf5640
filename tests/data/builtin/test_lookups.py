"""Look-ups: every query has its note; synonyms find all notes, common words only some."""

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
        for number, document in enumerate(documents):
            for word, count in Counter(words(document)).items():
                self.counts[word][number] = count

    def rank(self, query: str) -> list[int]:
        scores = np.zeros(len(self.lengths))
        length_norm = 0.25 + 0.75 * self.lengths / self.lengths.mean()
        for word in words(query):
            postings = self.counts.get(word, {})
            idf = log(1 + (len(scores) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, count in postings.items():
                scores[number] += idf * count * 2.2 / (count + 1.2 * length_norm[number])
        return list(np.argsort(-scores, kind="stable"))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def meaning(text: str) -> tuple[str, ...]:
    """The concepts of a text, whatever their wording."""
    return tuple(
        next(one for one in concepts if re.search(rf"\b(?:{one})\b", text))
        for concepts in (THINGS, TROUBLES, TIMES)
    )


def test_every_document_is_in_the_collection_under_its_id() -> None:
    notes = {row["id"]: row["text"] for row in lookup_notes()}
    assert len(notes) == len(set(notes.values())) == 2_000
    assert all(notes[row["document_id"]] == row["document"] for row in lookups())
    relevant = [row["document_id"] for row in lookups()]
    assert len(set(relevant)) == len(relevant) < len(notes)


def test_synonyms_identify_every_note() -> None:
    by_meaning = Counter(meaning(row["text"]) for row in lookup_notes())
    assert by_meaning.most_common(1)[0][1] == 1
    assert all(meaning(row["query"]) == meaning(row["document"]) for row in lookups())


def test_every_wording_occurs_in_train() -> None:
    seen = " ".join(
        f"{row['query']} {row['document']}" for row in lookups() if row["split"] == "train"
    )
    for concept in (*THINGS, *TROUBLES, *TIMES):
        assert all(wording in seen for wording in concept.split("|"))


def test_bm25_finds_only_some_notes() -> None:
    index = Bm25([row["text"] for row in lookup_notes()])
    held_out = [row for row in lookups() if row["split"] == "test"]
    ranks = np.array([index.rank(r["query"]).index(int(r["document_id"])) for r in held_out])
    assert 0.05 < np.mean(ranks == 0) < 0.6
    assert 0.3 < np.mean(ranks < 10) < 0.85
