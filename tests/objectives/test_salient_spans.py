"""Names, dates and listed phrases are found by spelling; sentence openers are not names."""

import pytest
from tests.objectives.toy_data import encode_row, vocabulary

from regard.core.errors import UserError
from regard.objectives.salient_spans import (
    first_sentence_length,
    has_cue,
    name_spans,
    read_phrases,
    salient_spans,
)
from regard.objectives.words import WordSpans, find_words

KINDS = ("bpe", "unigram", "character")
TEXT = "Ada P. Kim. Born on 3 March 1822 in New York City, Kim (1840 Ghent) moved to London ."


def words(text: str = TEXT, kind: str = "bpe") -> WordSpans:
    return find_words(encode_row(text, kind).ids, vocabulary(kind))


def span_texts(found: WordSpans, spans) -> list[str]:
    return [" ".join(found.texts[slice(*span)]) for span in spans]


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_dates(kind):
    found = words(kind=kind)
    names = ["Ada P", "Kim", "New York City", "Kim", "Ghent", "London"]
    assert span_texts(found, name_spans(found)) == names
    dates = ["3 March 1822", "1840"]
    assert sorted(span_texts(found, salient_spans(found))) == sorted(names + dates)


def test_prepositions_and_numbers_are_cues():
    found = words()
    with_cue = [span for span in name_spans(found) if has_cue(found, span)]
    assert span_texts(found, with_cue) == ["New York City", "Ghent", "London"]


def test_initial_does_not_end_the_first_sentence():
    found = words()
    assert " ".join(found.texts[: first_sentence_length(found)]) == "Ada P . Kim ."
    assert first_sentence_length(words("no sentence ends here")) == 0


def test_listed_phrase_is_one_span(tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("moved to\nYork City\n\nmoved\n")
    found = words()
    texts = span_texts(found, salient_spans(found, read_phrases(str(file))))
    assert "moved to" in texts
    assert "York City" in texts
    assert "New" in texts
    assert "moved" not in texts


def test_error_names_the_unusable_phrase_list(tmp_path):
    with pytest.raises(UserError, match=r"none\.txt.*does not exist"):
        read_phrases(str(tmp_path / "none.txt"))
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UserError, match=r"empty\.txt.*is empty"):
        read_phrases(str(tmp_path / "empty.txt"))
