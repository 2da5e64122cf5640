"""Pieces as plain text: put together they are the text again, spaces where words begin."""

import pytest

from regard.data.tokenizers import TOKENIZERS
from regard.data.tokenizers.tokenizer import Tokenizer

TEXT = "The naïve cat sat on the mat, (twice) and it's well-known ."
TEXTS = [TEXT] * 3


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word", "character"])
def test_pieces_make_up_the_text(kind):
    tokenizer = TOKENIZERS.get(kind).part().train(iter(TEXTS))
    pieces = [tokenizer.pieces[i] for i in tokenizer.encode(TEXT)]
    joined = "".join(pieces).strip()
    if kind in ("wordpiece", "word"):
        assert joined.replace(" ", "") == TEXT.replace(" ", "")
    elif kind != "bpe":
        assert joined == TEXT
    assert len(tokenizer.pieces) == tokenizer.size


def test_bytes_that_are_no_character_are_unreadable():
    tokenizer = TOKENIZERS.get("bpe").part(minimum_count=9).train(iter(TEXTS))
    [*pieces] = (tokenizer.pieces[i] for i in tokenizer.encode(" aï"))
    assert pieces == [" ", "a", "\ufffd", "\ufffd"]


def test_specials_say_nothing_and_unknown_words_are_words():
    tokenizer = TOKENIZERS.get("word").part(sentinels=2).train(iter(TEXTS))
    assert [tokenizer.pieces[i] for i in tokenizer.sentinels] == ["", ""]
    assert tokenizer.pieces[tokenizer.mask] == ""
    assert tokenizer.pieces[tokenizer.unk] == " \ufffd"


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word", "character"])
def test_sentinels_come_behind_all_other_ids_and_are_kept(kind, tmp_path):
    plain = TOKENIZERS.get(kind).part().train(iter(TEXTS))
    more = TOKENIZERS.get(kind).part(sentinels=3).train(iter(TEXTS))
    assert plain.sentinels == ()
    assert more.sentinels == (plain.size, plain.size + 1, plain.size + 2)
    assert more.tokens(more.sentinels) == ["<extra_0>", "<extra_1>", "<extra_2>"]
    assert more.encode(TEXT) == plain.encode(TEXT)
    assert not set(more.encode("a <extra_1> b")) & set(more.sentinels)
    assert more.decode([more.sentinels[0], *more.encode("cat")]).strip() == "cat"
    loaded = Tokenizer.load(more.save(tmp_path / "saved"))
    assert loaded.sentinels == more.sentinels
    assert loaded.fingerprint == more.fingerprint != plain.fingerprint
    assert loaded.with_sentinels(2) is loaded
    assert len(loaded.with_sentinels(5).sentinels) == 5
