"""Passages and windows: characters become tokens and come back, and no window misses anything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.character import Character
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.unigram import Unigram
from regard.data.tokenizers.word import Word
from regard.data.tokenizers.wordpiece import WordPiece
from regard.tasks.qa.passage_windows import TokenizedPassage, windows_of

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
def test_spans_of_characters_come_back_from_tokens(kind: str, data: st.DataObject) -> None:
    alphabet = st.sampled_from("abz AÅüß,.–“”½東 \n\t😀ﬁ\u0301")
    text = data.draw(st.text(alphabet, min_size=1, max_size=40).filter(str.strip))
    begin = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(begin + 1, len(text)))
    answer = text[begin:end].strip()
    if not answer:
        return
    begin = text.index(answer, begin)
    end = begin + len(answer)
    passage = TokenizedPassage.of(text, TOKENIZERS[kind])
    span = passage.tokens_of(begin, end)
    if span is None:  # the normaliser knows none of its characters
        assert kind in ("word", "wordpiece", "unigram")
        return
    first, last = span
    found = passage.characters_of(first, last)
    touched = [offset for offset in passage.offsets if offset[0] < end and offset[1] > begin]
    covered = text[min(low for low, _ in touched) : max(high for _, high in touched)]
    assert text[slice(*found)] == covered.strip()
    inside = (low < edge < high for low, high in passage.offsets for edge in (begin, end))
    if not any(inside):
        assert found == (begin, end)


def test_the_smallest_run_of_tokens_covers_a_part_of_a_word() -> None:
    passage = TokenizedPassage.of(TEXT, TOKENIZERS["word"])
    begin = TEXT.index("rich")
    span = passage.tokens_of(begin, begin + 4)
    assert span is not None
    assert TEXT[slice(*passage.characters_of(*span))] == "Zürich"


@given(
    tokens=st.integers(0, 60), asked=st.integers(0, 12), context=st.integers(5, 40), data=st.data()
)
def test_windows_miss_nothing(tokens: int, asked: int, context: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(0, 50))
    passage = TokenizedPassage("x" * tokens, tuple(range(100, 100 + tokens)), ((0, 1),) * tokens)
    windows = windows_of(list(range(asked)), passage, roles=words, context=context, stride=stride)
    room = context - 3 - min(asked, (context - 3) // 2)
    step = min(stride or max(1, room // 2), room)
    assert all(len(window.packed.ids) <= context for window in windows)
    assert {t for w in windows for t in range(w.begin, w.begin + w.tokens)} == set(range(tokens))
    longest = room - step + 1
    for first in range(max(0, tokens - longest + 1)):
        span = (first, first + longest - 1)
        whole = [places for window in windows if (places := window.places_of(span))]
        assert whole
        for window in windows:
            if places := window.places_of(span):
                assert window.tokens_at(places) == span
                ids = window.packed.ids[places[0] : places[1] + 1]
                assert ids == passage.ids[span[0] : span[1] + 1]
                assert set(window.packed.segments[places[0] : places[1] + 1]) == {1}
