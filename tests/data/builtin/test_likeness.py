from collections import Counter

from scipy.stats import spearmanr

from regard.data.builtin.likeness import SPLIT_SIZES, likeness
from regard.evaluation.baselines.tfidf_cosine import TfidfCosine


def test_every_score_is_in_test_and_no_pair_of_train():
    rows = list(likeness())
    assert Counter(row["split"] for row in rows) == SPLIT_SIZES
    assert {row["score"] for row in rows if row["split"] == "test"} == {0, 1, 2, 3}
    pairs = {(row["first"], row["second"]) for row in rows if row["split"] == "train"}
    assert not any((r["first"], r["second"]) in pairs for r in rows if r["split"] != "train")


def test_tfidf_correlates_only_partly():
    rows = list(likeness())
    baseline = TfidfCosine(row[side] for row in rows for side in ("first", "second"))
    scores = [baseline.score(row["first"], row["second"]) for row in rows]
    assert 0.2 < spearmanr(scores, [row["score"] for row in rows]).statistic < 0.7
