"""Phrases and headlines: the grammar has no exceptions, and copying does not give the target."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import numpy as np

from regard.data.builtin.phrases import (
    ACTS,
    CLASSES,
    LINKS,
    MAX_WORDS,
    REORDERED,
    STATES,
    lexicon,
    phrases,
)
from regard.data.builtin.world.headlines import headlines


def test_lengths_range_from_three_to_thirty_words() -> None:
    lengths = Counter(len(row["source"].split()) for row in phrases() if row["split"] == "test")
    assert (min(lengths), max(lengths)) == (3, MAX_WORDS)
    for low in (3, 9, 15, 21, 26):
        assert sum(lengths[length] for length in range(low, low + 5)) >= 30


def test_stems_are_unique() -> None:
    stems = list(lexicon().values())
    assert 85 <= len(stems) == len(set(stems)) <= 110


def test_every_clause_ends_with_its_verb_or_negation() -> None:
    verbs = {
        lexicon()[verb] + end + more
        for verb in ACTS + STATES
        for end in CLASSES
        for more in ("", "m")
    }
    links = {lexicon()[link] for link in LINKS}
    for row in phrases():
        words = row["target"].split()
        ends = [words[index - 1] for index, word in enumerate(words) if word in links] + words[-1:]
        assert all(end in verbs or end == lexicon()["not"] for end in ends)
        negations = len(re.findall(r"\bdo(?:es)? not\b", row["source"]))
        assert ends.count(lexicon()["not"]) == negations


def test_reason_comes_before_the_main_clause() -> None:
    one_reason = [
        row
        for row in phrases()
        if [word for word in row["source"].split() if word in LINKS] == [REORDERED]
    ]
    assert len(one_reason) > 300
    translations = {row["source"]: row["target"] for row in phrases()}
    checked = 0
    for row in one_reason:
        main, reason = row["source"].split(f" {REORDERED} ")
        first, last = row["target"].split(f" {lexicon()[REORDERED]} ")
        for clause, found in ((main, last), (reason, first)):
            if clause in translations:
                checked += 1
                assert translations[clause] == found
    assert checked > 10


def test_vocabularies_are_disjoint_and_covered_by_train() -> None:
    words = defaultdict(set)
    for row in phrases():
        words["source"] |= set(row["source"].split())
        words["target"] |= set(row["target"].split())
        if row["split"] == "train":
            words["train"] |= set(row["target"].split())
    assert not words["source"] & words["target"]
    held_out = {w for row in phrases() if row["split"] != "train" for w in row["target"].split()}
    assert held_out <= words["train"]


def unigram_f1(one: str, other: str) -> float:
    a, b = (Counter(re.findall(r"\w+", text.lower())) for text in (one, other))
    return 2 * (a & b).total() / (a.total() + b.total())


def test_no_sentence_of_a_report_is_its_summary() -> None:
    lead, best = [], []
    for row in headlines():
        sentences = re.split(r"(?<=\.) ", row["document"])
        assert row["summary"] not in sentences
        assert 5 <= len(sentences) <= 9
        scores = [unigram_f1(sentence, row["summary"]) for sentence in sentences]
        lead.append(scores[0])
        best.append(max(scores))
    assert np.mean(lead) < 0.25
    assert np.mean(best) < 0.65


def test_summary_words_occur_in_the_report() -> None:
    for row in headlines():
        names = re.findall(r"[A-Z]\w+|\d+", row["summary"])
        assert all(re.search(rf"\b{word}\b", row["document"]) for word in names[1:])
        shared = set(row["summary"].lower().split()) & set(row["document"].lower().split())
        assert len(shared) >= 3


def test_verb_of_a_decision_follows_from_the_votes() -> None:
    votes = re.compile(r"(\d+) members were for it and (\d+) against")
    decisions = [row for row in headlines() if votes.search(row["document"])]
    assert len(decisions) > 400
    for row in decisions:
        found = votes.search(row["document"])
        assert found is not None
        assert (" approves " in row["summary"]) == (int(found[1]) > int(found[2]))
    outcomes = Counter(" approves " in row["summary"] for row in decisions)
    assert min(outcomes.values()) > 0.4 * len(decisions)
