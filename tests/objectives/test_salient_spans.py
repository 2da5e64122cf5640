"""Names, dates and listed phrases are found by their spelling; sentence openers are no names."""

import pytest
from tests.objectives.shelf import row_of, vocabulary

from regard.core.errors import UserError
from regard.objectives.salient_spans import (
    first_sentence,
    is_introduced,
    name_runs,
    read_phrases,
    salient_spans,
)
from regard.objectives.words import WordSpans, words_of

KINDS = ("bpe", "unigram", "character")
TEXT = "Ada P. Kim. Born on 3 March 1822 in New York City, Kim (1840 Ghent) moved to London ."


def words(text: str = TEXT, kind: str = "bpe") -> WordSpans:
    return words_of(row_of(text, kind).ids, vocabulary(kind))


def said(found: WordSpans, spans) -> list[str]:
    return [" ".join(found.texts[slice(*span)]) for span in spans]


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_dates(kind):
    found = words(kind=kind)
    names = ["Ada P", "Kim", "New York City", "Kim", "Ghent", "London"]
    assert said(found, name_runs(found)) == names
    dates = ["3 March 1822", "1840"]
    assert sorted(said(found, salient_spans(found))) == sorted(names + dates)


def test_names_behind_prepositions_and_numbers_are_introduced():
    found = words()
    introduced = [span for span in name_runs(found) if is_introduced(found, span)]
    assert said(found, introduced) == ["New York City", "Ghent", "London"]


def test_the_first_sentence_ends_at_no_initial():
    found = words()
    assert " ".join(found.texts[: first_sentence(found)]) == "Ada P . Kim ."
    assert first_sentence(words("no sentence ends here")) == 0


def test_listed_phrases_are_spans_of_their_own(tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("moved to\nYork City\n\nmoved\n")
    found = words()
    listed = said(found, salient_spans(found, read_phrases(str(file))))
    assert "moved to" in listed
    assert "York City" in listed
    assert "New" in listed
    assert "moved" not in listed


def test_a_list_that_cannot_be_used_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.txt.*No such file"):
        read_phrases(str(tmp_path / "none.txt"))
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UserError, match=r"empty\.txt.*is empty"):
        read_phrases(str(tmp_path / "empty.txt"))
