"""Properties of every tokenizer kind in the catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.catalog import Entry
from regard.core.errors import UserError
from regard.core.setting_docs import setting_docs
from regard.data.tokenizers import TOKENIZERS, TokenizerKind
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer

TEXTS = [
    "The cat sat on the mat, and the dog sat on the cat.",
    "A cat may look at a king; a dog may look at a cat.",
    "def look(cat):\n    return cat.king  # a comment",
    "naïve café, naïve café",
    "",
] * 3
UNUSUAL = [
    "\U0010fffd",
    "日本語のテキスト",
    "\x00\x01",
    "<stop> [MASK] <pad>",
    " ",
    "\n\n",
    "▁",
    "x" * 5000,
]


@pytest.fixture(params=list(TOKENIZERS), ids=lambda entry: entry.name)
def entry(request: pytest.FixtureRequest) -> Entry:
    return request.param


@pytest.fixture
def settings(entry: Entry, tmp_path: Path) -> TokenizerKind:
    if "path" not in entry.part.model_fields:
        return entry.part()
    other = TOKENIZERS.get("bpe").part().train(iter(TEXTS))
    return entry.part(path=str(other.save(tmp_path / "elsewhere")))


@pytest.fixture
def tokenizer(settings: TokenizerKind) -> Tokenizer:
    return settings.train(iter(TEXTS))


def test_every_setting_is_documented(entry: Entry) -> None:
    assert entry.summary
    assert setting_docs(entry.part).keys() >= entry.part.model_fields.keys()


def test_specials_have_the_first_seven_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens(range(7)) == list(SPECIALS)
    roles = ("pad", "unk", "start", "stop", "cls", "sep", "mask")
    assert [tokenizer.require(role) for role in roles] == list(range(7))


def test_round_trip_keeps_what_the_kind_declares(entry: Entry, settings: TokenizerKind) -> None:
    if "minimum_count" in entry.part.model_fields:
        settings = settings.model_copy(update={"minimum_count": 1})
    tokenizer = settings.train(iter(TEXTS))
    for text in TEXTS:
        back = tokenizer.decode(tokenizer.encode(text))
        if entry.properties["keeps"] == "text":
            assert back == text
        else:
            assert "".join(back.split()) == "".join(text.split())


def test_encode_many_equals_encode(tokenizer: Tokenizer) -> None:
    texts = TEXTS + UNUSUAL
    assert tokenizer.encode_many(texts) == [tokenizer.encode(text) for text in texts]


def test_unusual_text_gets_ids_of_the_vocabulary(tokenizer: Tokenizer) -> None:
    for text in UNUSUAL:
        ids = tokenizer.encode(text)
        assert all(0 <= i < tokenizer.size for i in ids)
        tokenizer.decode(ids)


def test_text_is_never_encoded_as_a_special_token(tokenizer: Tokenizer) -> None:
    spelled = " ".join(SPECIALS) + "".join(SPECIALS)
    unknown_or_ordinary = {tokenizer.unk, *range(len(SPECIALS), tokenizer.size)}
    assert set(tokenizer.encode(spelled)) <= unknown_or_ordinary


def test_special_tokens_spelled_in_training_text_stay_text(
    entry: Entry, settings: TokenizerKind
) -> None:
    tokenizer = settings.train(iter(["say <stop> and [MASK] and <start>x<stop> again"] * 4 + TEXTS))
    ids = tokenizer.encode("say <stop> and [MASK] and <start>x<stop> again")
    assert not set(ids) & (set(range(7)) - {tokenizer.unk})


def test_save_and_load(tokenizer: Tokenizer, tmp_path: Path) -> None:
    loaded = Tokenizer.load(tokenizer.save(tmp_path / "saved"))
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.name == tokenizer.name
    assert loaded.encode_many(TEXTS + UNUSUAL) == tokenizer.encode_many(TEXTS + UNUSUAL)


def test_training_is_deterministic(settings: TokenizerKind) -> None:
    fingerprints = {settings.train(iter(TEXTS)).fingerprint for _ in range(3)}
    assert len(fingerprints) == 1


def test_empty_training_text_is_refused(entry: Entry, settings: TokenizerKind) -> None:
    if entry.name == "file":
        assert settings.train(iter([])).size > 0
    else:
        with pytest.raises(UserError, match=r"the training split has no text.*data\.corpus"):
            settings.train(iter(["", "  \n"]))


def test_a_vocabulary_too_large_for_the_text_is_filled_as_far_as_it_goes(entry: Entry) -> None:
    if "vocabulary" not in entry.part.model_fields:
        pytest.skip(f"{entry.name} has no vocabulary size")
    large = entry.part(vocabulary=50_000, sentinels=2)
    trained = large.train(iter(TEXTS))
    filled = trained.size - 2
    (remark,) = large.remarks(trained)
    assert "50,000" in remark
    assert f"{filled:,} pieces" in remark
    for pieces in (filled, filled - 1):
        fitting = entry.part(vocabulary=pieces)
        exact = fitting.train(iter(TEXTS))
        assert exact.size == pieces
        assert fitting.remarks(exact) == []


def test_an_error_while_reading_text_propagates(settings: TokenizerKind, entry: Entry) -> None:
    def broken():
        yield "one good text"
        raise UserError("row 2 is torn", topic="data")

    if entry.name != "file":
        with pytest.raises(UserError, match="row 2 is torn"):
            settings.train(broken())
