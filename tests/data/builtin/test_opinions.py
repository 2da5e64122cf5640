"""Opinions: balanced, and word order decides where a bag of words cannot."""

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

SUBJECTS = "|".join(sorted({one for names in ASPECTS.values() for one in names.split(",")}))
ADJECTIVES = "|".join(word for words in WORDS.values() for word in words)


def pattern(template: str, **fields: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", lambda field: fields[field[1]], template), re.IGNORECASE)


CLAUSES = [
    (pattern(template, aspect=f"(?:{SUBJECTS})", word=f"(?P<word>{ADJECTIVES})"), turned)
    for templates, turned in ((NEGATION, True), (PSEUDO_NEGATION, False), (PLAIN, False))
    for template in templates
]
CONTRASTS = [
    pattern(template, verdict="(?P<verdict>.+)", other="(?P<other>.+)") for template in CONTRAST
]


def clause_verdict(clause: str) -> str | None:
    for shape, turned in CLAUSES:
        if found := shape.fullmatch(clause):
            label = "positive" if found["word"] in WORDS["positive"] else "negative"
            return OPPOSITE[label] if turned else label
    return None


def verdict(text: str) -> str | None:
    """What somebody says who knows the rules: the clause that decides, turned where denied."""
    for sentence in text.rstrip(".").split(". "):
        for shape in CONTRASTS:
            found = shape.fullmatch(sentence)
            if found and clause_verdict(found["verdict"]) and clause_verdict(found["other"]):
                return clause_verdict(found["verdict"])
        if clause_verdict(sentence):
            return clause_verdict(sentence)
    return None


@pytest.mark.parametrize("words", [(1, 1), (1, 2)])
def test_tfidf_gets_most_of_it_and_does_not_solve_it(words: tuple[int, int]) -> None:
    rows = list(opinions())
    train, judged = (
        [row for row in rows if (row["part"] == "train") == is_train] for is_train in (True, False)
    )
    model = make_pipeline(
        TfidfVectorizer(ngram_range=words, sublinear_tf=True),
        LogisticRegression(C=10.0, max_iter=1000),
    )
    model.fit([row["text"] for row in train], [row["label"] for row in train])
    accuracy = model.score([row["text"] for row in judged], [row["label"] for row in judged])
    assert 0.70 < accuracy < 0.90


def test_labels_are_balanced_and_no_text_stands_twice() -> None:
    rows = list(opinions())
    for part in ("train", "dev", "test"):
        labels = Counter(row["label"] for row in rows if row["part"] == part)
        assert abs(labels["positive"] / labels.total() - 0.5) < 0.06
    assert len({row["text"] for row in rows}) == len(rows)


def test_the_same_words_in_another_order_get_another_label() -> None:
    blame, praise = "the plot is dull", "the acting is witty"
    for template in CONTRAST:
        one = template.format(verdict=praise, other=blame)
        other = template.format(verdict=blame, other=praise)
        assert sorted(re.findall(r"\w+", one)) == sorted(re.findall(r"\w+", other))
        assert (verdict(one), verdict(other)) == ("positive", "negative")


@given(st.integers(0, 2**32), st.sampled_from(sorted(WORDS)))
def test_whoever_knows_the_rules_is_always_right(seed: int, label: str) -> None:
    assert verdict(opinion(label, Random(seed))) == label
