"""Opinions: balanced, and decided by negation and word order, not by a bag of words."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from regard.data.builtin.opinions import (
    ASPECTS,
    CONTRAST,
    NEGATION,
    OPPOSITE,
    PLAIN,
    PSEUDO_NEGATION,
    WORDS,
    opinion,
    opinions,
)

SUBJECTS = "|".join(sorted({name for names in ASPECTS.values() for name in names.split(",")}))
ADJECTIVES = "|".join(word for words in WORDS.values() for word in words)


def pattern(template: str, **fields: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", lambda field: fields[field[1]], template), re.IGNORECASE)


CLAUSES = [
    (pattern(template, aspect=f"(?:{SUBJECTS})", word=f"(?P<word>{ADJECTIVES})"), is_negated)
    for templates, is_negated in ((NEGATION, True), (PSEUDO_NEGATION, False), (PLAIN, False))
    for template in templates
]
CONTRASTS = [
    pattern(template, verdict="(?P<verdict>.+)", other="(?P<other>.+)") for template in CONTRAST
]


def clause_verdict(clause: str) -> str | None:
    for shape, is_negated in CLAUSES:
        if found := shape.fullmatch(clause):
            label = "positive" if found["word"] in WORDS["positive"] else "negative"
            return OPPOSITE[label] if is_negated else label
    return None


def verdict(text: str) -> str | None:
    """The label by rule: that of the deciding clause, reversed if negated."""
    for sentence in text.rstrip(".").split(". "):
        for shape in CONTRASTS:
            found = shape.fullmatch(sentence)
            if found and clause_verdict(found["verdict"]) and clause_verdict(found["other"]):
                return clause_verdict(found["verdict"])
        if clause_verdict(sentence):
            return clause_verdict(sentence)
    return None


@pytest.mark.parametrize("words", [(1, 1), (1, 2)])
def test_tfidf_does_not_solve_it(words: tuple[int, int]) -> None:
    rows = list(opinions())
    train, held_out = (
        [row for row in rows if (row["split"] == "train") == is_train] for is_train in (True, False)
    )
    model = make_pipeline(
        TfidfVectorizer(ngram_range=words, sublinear_tf=True),
        LogisticRegression(C=10.0, max_iter=1000),
    )
    model.fit([row["text"] for row in train], [row["label"] for row in train])
    accuracy = model.score([row["text"] for row in held_out], [row["label"] for row in held_out])
    assert 0.70 < accuracy < 0.90


def test_labels_are_balanced_and_texts_unique() -> None:
    rows = list(opinions())
    for split in ("train", "dev", "test"):
        labels = Counter(row["label"] for row in rows if row["split"] == split)
        assert abs(labels["positive"] / labels.total() - 0.5) < 0.06
    assert len({row["text"] for row in rows}) == len(rows)


def test_same_words_in_another_order_have_another_label() -> None:
    blame, praise = "the plot is dull", "the acting is witty"
    for template in CONTRAST:
        one = template.format(verdict=praise, other=blame)
        other = template.format(verdict=blame, other=praise)
        assert sorted(re.findall(r"\w+", one)) == sorted(re.findall(r"\w+", other))
        assert (verdict(one), verdict(other)) == ("positive", "negative")


@given(st.integers(0, 2**32), st.sampled_from(sorted(WORDS)))
def test_rules_give_the_label(seed: int, label: str) -> None:
    assert verdict(opinion(label, Random(seed))) == label
