import pytest

from regard.core.errors import UserError
from regard.evaluation.baselines.word_tags import WordTags


def test_each_word_has_its_most_frequent_tag_and_unknown_words_that_of_rare_ones():
    sentences = [["the", "cat", "Ada"], ["the", "cat", "Max"], ["the", "dog", "cat"]]
    tags = [["O", "O", "P"], ["O", "O", "P"], ["O", "X", "Q"]]
    assert WordTags(sentences, tags).predict(["the", "cat", "Ada", "Eva"]) == ["O", "O", "P", "P"]


def test_ties_go_by_name_whatever_the_order():
    for order in ([["A"], ["B"]], [["B"], ["A"]]):
        assert WordTags([["x"], ["x"]], order).predict(["x", "y"]) == ["A", "A"]


def test_without_words_it_is_refused():
    with pytest.raises(UserError, match="no training word"):
        WordTags([], [])
