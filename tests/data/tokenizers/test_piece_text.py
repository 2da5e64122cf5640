"""Pieces as plain text: joined they give the text, with spaces where words begin."""

import pytest

from regard.data.tokenizers import TOKENIZERS
from regard.data.tokenizers.tokenizer import Tokenizer

TEXT = "The naïve cat sat on the mat, (twice) and it's well-known ."
TEXTS = [TEXT] * 3


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word", "character"])
def test_joined_pieces_are_the_text(kind):
    tokenizer = TOKENIZERS.get(kind).part().train(iter(TEXTS))
    pieces = [tokenizer.pieces[i] for i in tokenizer.encode(TEXT)]
    joined = "".join(pieces).strip()
    if kind in ("wordpiece", "word"):
        assert joined.replace(" ", "") == TEXT.replace(" ", "")
    elif kind != "bpe":
        assert joined == TEXT
    assert len(tokenizer.pieces) == tokenizer.size


def test_incomplete_utf8_is_the_replacement_character():
    tokenizer = TOKENIZERS.get("bpe").part(minimum_count=9).train(iter(TEXTS))
    [*pieces] = (tokenizer.pieces[i] for i in tokenizer.encode(" aï"))
    assert pieces == [" ", "a", "\ufffd", "\ufffd"]


def test_special_tokens_are_empty_and_unk_is_a_word():
    tokenizer = TOKENIZERS.get("word").part(sentinels=2).train(iter(TEXTS))
    assert [tokenizer.pieces[i] for i in tokenizer.sentinels] == ["", ""]
    assert tokenizer.pieces[tokenizer.mask] == ""
    assert tokenizer.pieces[tokenizer.unk] == " \ufffd"


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word", "character"])
def test_sentinels_follow_all_other_ids_and_are_saved(kind, tmp_path):
    plain = TOKENIZERS.get(kind).part().train(iter(TEXTS))
    extended = TOKENIZERS.get(kind).part(sentinels=3).train(iter(TEXTS))
    assert plain.sentinels == ()
    assert extended.sentinels == (plain.size, plain.size + 1, plain.size + 2)
    assert extended.tokens(extended.sentinels) == ["<extra_0>", "<extra_1>", "<extra_2>"]
    assert extended.encode(TEXT) == plain.encode(TEXT)
    assert not set(extended.encode("a <extra_1> b")) & set(extended.sentinels)
    assert extended.decode([extended.sentinels[0], *extended.encode("cat")]).strip() == "cat"
    loaded = Tokenizer.load(extended.save(tmp_path / "saved"))
    assert loaded.sentinels == extended.sentinels
    assert loaded.fingerprint == extended.fingerprint != plain.fingerprint
    assert loaded.with_sentinels(2) is loaded
    assert len(loaded.with_sentinels(5).sentinels) == 5
