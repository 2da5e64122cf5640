"""What every tokenizer kind in the catalogue promises, whichever kinds there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.catalog import Entry
from regard.core.errors import UserError
from regard.data.tokenizers import TOKENIZERS, TokenizerKind
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer

TEXTS = [
    "The cat sat on the mat, and the dog sat on the cat.",
    "A cat may look at a king; a dog may look at a cat.",
    "def look(cat):\n    return cat.king  # a comment",
    "naïve café, naïve café",
    "",
] * 3
STRANGE = [
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
    assert all(field.description for field in entry.part.model_fields.values())


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


def test_many_at_once_are_the_same_as_one_by_one(tokenizer: Tokenizer) -> None:
    texts = TEXTS + STRANGE
    assert tokenizer.encode_many(texts) == [tokenizer.encode(text) for text in texts]


def test_unknown_text_neither_fails_nor_leaves_the_vocabulary(tokenizer: Tokenizer) -> None:
    for text in STRANGE:
        ids = tokenizer.encode(text)
        assert all(0 <= i < tokenizer.size for i in ids)
        tokenizer.decode(ids)


def test_text_never_becomes_a_special(tokenizer: Tokenizer) -> None:
    spelled = " ".join(SPECIALS) + "".join(SPECIALS)
    unknown_or_ordinary = {tokenizer.unk, *range(len(SPECIALS), tokenizer.size)}
    assert set(tokenizer.encode(spelled)) <= unknown_or_ordinary


def test_special_spellings_in_training_text_stay_text(
    entry: Entry, settings: TokenizerKind
) -> None:
    tokenizer = settings.train(iter(["say <stop> and [MASK] and <start>x<stop> again"] * 4 + TEXTS))
    ids = tokenizer.encode("say <stop> and [MASK] and <start>x<stop> again")
    assert not set(ids) & (set(range(7)) - {tokenizer.unk})


def test_saved_and_loaded_it_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    loaded = Tokenizer.load(tokenizer.save(tmp_path / "saved"))
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.name == tokenizer.name
    assert loaded.encode_many(TEXTS + STRANGE) == tokenizer.encode_many(TEXTS + STRANGE)


def test_training_twice_gives_one_fingerprint(settings: TokenizerKind) -> None:
    fingerprints = {settings.train(iter(TEXTS)).fingerprint for _ in range(3)}
    assert len(fingerprints) == 1


def test_nothing_to_learn_from(entry: Entry, settings: TokenizerKind) -> None:
    if entry.name == "file":
        assert settings.train(iter([])).size > 0
    else:
        with pytest.raises(UserError, match=r"the training part holds no text.*data\.corpus"):
            settings.train(iter(["", "  \n"]))


def test_a_size_the_text_cannot_fill_is_refused_and_the_size_named_works(entry: Entry) -> None:
    if "vocabulary" not in entry.part.model_fields:
        pytest.skip(f"{entry.name} has no size")
    with pytest.raises(UserError, match="this text fills only") as problem:
        entry.part(vocabulary=50_000).train(iter(TEXTS))
    filled = problem.value.filled
    assert f"Set tokenizer.vocabulary = {filled} or less" in str(problem.value)
    assert entry.part(vocabulary=filled).train(iter(TEXTS)).size == filled
    assert entry.part(vocabulary=filled - 1).train(iter(TEXTS)).size == filled - 1


def test_trouble_while_reading_reaches_the_person(settings: TokenizerKind, entry: Entry) -> None:
    def broken():
        yield "one good text"
        raise UserError("row 2 is torn", topic="data")

    if entry.name != "file":
        with pytest.raises(UserError, match="row 2 is torn"):
            settings.train(broken())
