import pytest

from regard.core.errors import UserError
from regard.evaluation.metrics.bleu_and_rouge import TranslationMetric
from regard.evaluation.metrics.by_length import score_by_length
from regard.evaluation.metrics.scoring import score
from regard.evaluation.statistics.intervals import Bootstrap

FEW_RESAMPLES = Bootstrap(resamples=80)
WORDS = ["a", "man", "rode", "the", "old", "red", "horse", "home", "in", "the", "dark"]


def row(item, length, correct):
    """A translation of which only the first words are correct."""
    wrong = ["x"] * (length - correct)
    return {
        "item": item,
        "source_words": length,
        "predicted": " ".join([*WORDS[:correct], *wrong]),
        "truths": [" ".join(WORDS[:length])],
    }


ROWS = [row(0, 5, 5), row(1, 5, 4), row(2, 9, 4), row(3, 10, 4), row(4, 11, 4)]


def scores_in_bins(edges, rows=ROWS):
    return score_by_length(
        TranslationMetric(),
        rows,
        field="source_words",
        edges=edges,
        split="test",
        bootstrap=FEW_RESAMPLES,
    )


def test_each_bin_is_scored_separately():
    short, long = scores_in_bins([6])
    for found, rows in ((short, ROWS[:2]), (long, ROWS[2:])):
        alone = score(TranslationMetric(), rows, split="test", bootstrap=FEW_RESAMPLES)
        assert [(f.value, f.low, f.high, f.n) for f in found.estimates] == [
            (f.value, f.low, f.high, f.n) for f in alone
        ]
    assert short.estimates[0].value > long.estimates[0].value
    assert "test, source_words –6" in short.estimates[0].signature


def test_edge_is_the_minimum_of_its_bin_and_empty_bins_are_omitted():
    found = scores_in_bins([2, 5, 10, 40])
    assert [(str(one), one.estimates[0].n) for one in found] == [("5 to 9", 3), ("10 to 39", 2)]
    assert [str(one) for one in scores_in_bins([7])] == ["below 7", "7 and more"]
    assert [(str(one), one.estimates[0].n) for one in scores_in_bins([])] == [("all", 5)]


def test_every_item_is_in_exactly_one_bin():
    assert sum(one.estimates[0].n for one in scores_in_bins([5, 6, 7, 10])) == len(ROWS)


def test_unsorted_edges_and_missing_lengths_raise():
    with pytest.raises(UserError, match="do not increase"):
        scores_in_bins([10, 5])
    with pytest.raises(UserError, match="there is no source_words"):
        scores_in_bins([5], [{"predicted": "a", "truths": ["a"]}])
