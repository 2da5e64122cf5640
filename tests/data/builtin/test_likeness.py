from collections import Counter

from scipy.stats import spearmanr

from regard.data.builtin.likeness import SPLIT_SIZES, likeness
from regard.evaluation.baselines.tfidf_cosine import TfidfCosine


def test_every_part_has_all_scores_and_no_pair_of_train_is_judged():
    rows = list(likeness())
    assert Counter(row["part"] for row in rows) == SPLIT_SIZES
    assert {row["score"] for row in rows if row["part"] == "test"} == {0, 1, 2, 3}
    pairs = {(row["first"], row["second"]) for row in rows if row["part"] == "train"}
    assert not any((r["first"], r["second"]) in pairs for r in rows if r["part"] != "train")


def test_counting_words_tells_some_of_it_and_not_all():
    rows = list(likeness())
    words = TfidfCosine(row[side] for row in rows for side in ("first", "second"))
    scores = [words.score(row["first"], row["second"]) for row in rows]
    assert 0.2 < spearmanr(scores, [row["score"] for row in rows]).statistic < 0.7
