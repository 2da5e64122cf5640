"""Passages and windows: character and token spans round-trip, and windows cover all tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.character import Character
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.unigram import Unigram
from regard.data.tokenizers.word import Word
from regard.data.tokenizers.wordpiece import WordPiece
from regard.tasks.qa.passage_windows import TokenizedPassage, build_windows

TEXT = "Jill Birt was born in  Zürich (1874–1923), and “lived” there; Åse walked to Rome at night."
TEXTS = [TEXT, "a dog, a cat and the naïve old man of Łódź ½ ate 東京 rice"] * 3
TOKENIZERS: dict[str, Tokenizer] = {
    "bytes": Bpe().train(iter(TEXTS)),
    "plain": Bpe(bytes=False).train(iter(TEXTS)),
    "word": Word(minimum_count=1).train(iter(TEXTS)),
    "wordpiece": WordPiece().train(iter(TEXTS)),
    "unigram": Unigram().train(iter(TEXTS)),
    "character": Character().train(iter(TEXTS)),
}
words = Word(minimum_count=1).train(iter(["one two three four five six seven who when"]))


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
@settings(max_examples=40)
def test_character_spans_round_trip_through_token_spans(kind: str, data: st.DataObject) -> None:
    alphabet = st.sampled_from("abz AÅüß,.–“”½東 \n\t😀ﬁ\u0301")
    text = data.draw(st.text(alphabet, min_size=1, max_size=40).filter(str.strip))
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    answer = text[begin:end].strip()
    if not answer:
        return
    begin = text.index(answer, begin)
    end = begin + len(answer)
    passage = TokenizedPassage.from_text(text, TOKENIZERS[kind])
    span = passage.token_span(begin, end)
    if span is None:  # the normaliser drops all of these characters
        assert kind in ("word", "wordpiece", "unigram")
        return
    first, last = span
    characters = passage.character_span(first, last)
    overlapping = [offset for offset in passage.offsets if offset[0] < end and offset[1] > begin]
    covered = text[min(low for low, _ in overlapping) : max(high for _, high in overlapping)]
    assert text[slice(*characters)] == covered.strip()
    splits_a_token = (low < edge < high for low, high in passage.offsets for edge in (begin, end))
    if not any(splits_a_token):
        assert characters == (begin, end)


def test_token_span_covers_part_of_a_word_with_the_whole_word() -> None:
    passage = TokenizedPassage.from_text(TEXT, TOKENIZERS["word"])
    begin = TEXT.index("rich")
    span = passage.token_span(begin, begin + 4)
    assert span is not None
    assert TEXT[slice(*passage.character_span(*span))] == "Zürich"


@given(
    tokens=st.integers(0, 60),
    question_tokens=st.integers(0, 12),
    context=st.integers(5, 40),
    stride=st.integers(0, 50),
)
def test_windows_cover_every_short_span(
    tokens: int, question_tokens: int, context: int, stride: int
) -> None:
    passage = TokenizedPassage("x" * tokens, tuple(range(100, 100 + tokens)), ((0, 1),) * tokens)
    question = list(range(question_tokens))
    windows = build_windows(question, passage, roles=words, context=context, stride=stride)
    max_tokens = context - 3 - min(question_tokens, (context - 3) // 2)
    step = min(stride or max(1, max_tokens // 2), max_tokens)
    assert all(len(window.sequence.ids) <= context for window in windows)
    assert {t for w in windows for t in range(w.begin, w.begin + w.tokens)} == set(range(tokens))
    span_length = max_tokens - step + 1
    for first in range(max(0, tokens - span_length + 1)):
        span = (first, first + span_length - 1)
        covering = [(window, at) for window in windows if (at := window.to_positions(span))]
        assert covering
        for window, positions in covering:
            assert window.to_tokens(positions) == span
            inside = slice(positions[0], positions[1] + 1)
            assert window.sequence.ids[inside] == passage.ids[span[0] : span[1] + 1]
            assert set(window.sequence.segments[inside]) == {1}
