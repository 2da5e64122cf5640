import pytest

from regard.core.errors import UserError
from regard.evaluation.metrics.bleu_and_rouge import TranslationMetric
from regard.evaluation.metrics.by_length import score_by_length
from regard.evaluation.metrics.metric import score
from regard.evaluation.statistics.intervals import Bootstrap

FEW_RESAMPLES = Bootstrap(resamples=80)
WORDS = ["a", "man", "rode", "the", "old", "red", "horse", "home", "in", "the", "dark"]


def row(item, length, kept):
    """A translation whose first words alone are right."""
    wrong = ["x"] * (length - kept)
    return {
        "item": item,
        "source_words": length,
        "predicted": " ".join([*WORDS[:kept], *wrong]),
        "truths": [" ".join(WORDS[:length])],
    }


ROWS = [row(0, 5, 5), row(1, 5, 4), row(2, 9, 4), row(3, 10, 4), row(4, 11, 4)]


def binned(edges, rows=ROWS):
    return score_by_length(
        TranslationMetric(),
        rows,
        field="source_words",
        edges=edges,
        split="test",
        bootstrap=FEW_RESAMPLES,
    )


def test_each_bin_is_scored_by_itself():
    short, long = binned([6])
    for found, rows in ((short, ROWS[:2]), (long, ROWS[2:])):
        alone = score(TranslationMetric(), rows, split="test", bootstrap=FEW_RESAMPLES)
        assert [(f.value, f.low, f.high, f.n) for f in found.estimates] == [
            (f.value, f.low, f.high, f.n) for f in alone
        ]
    assert short.estimates[0].value > long.estimates[0].value
    assert "test, source_words –6" in short.estimates[0].signature


def test_an_edge_is_the_shortest_of_its_bin_and_empty_bins_are_left_out():
    found = binned([2, 5, 10, 40])
    assert [(str(one), one.estimates[0].n) for one in found] == [("5 to 9", 3), ("10 to 39", 2)]
    assert [str(one) for one in binned([7])] == ["below 7", "7 and more"]
    assert [(str(one), one.estimates[0].n) for one in binned([])] == [("all", 5)]


def test_every_item_is_in_one_bin():
    assert sum(one.estimates[0].n for one in binned([5, 6, 7, 10])) == len(ROWS)


def test_edges_rise_and_lengths_are_there():
    with pytest.raises(UserError, match="do not rise"):
        binned([10, 5])
    with pytest.raises(UserError, match="there is no source_words"):
        binned([5], [{"predicted": "a", "truths": ["a"]}])
