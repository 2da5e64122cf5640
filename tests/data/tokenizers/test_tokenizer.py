import json
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from regard.core.errors import UserError
from regard.data.tokenizers import TOKENIZERS
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.character import Character
from regard.data.tokenizers.tokenizer import Tokenizer, check_same_tokenizer
from regard.data.tokenizers.unigram import deterministic_scores, prune_pieces
from regard.data.tokenizers.word import Word

TEXTS = ["the cat sat on the mat, the dog did not", "a dog and a cat"] * 3
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat", ",", "."]

byte_bpe = Bpe().train(iter(TEXTS))


def with_vocabulary(*words: str) -> Tokenizer:
    engine = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}))
    return Tokenizer(engine, name="invented")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_byte_level_bpe_is_lossless(text: str) -> None:
    assert byte_bpe.decode(byte_bpe.encode(text)) == text


@pytest.mark.parametrize("text", ["half \ud800 a character", None, b"bytes", 3])
def test_what_is_no_text_in_unicode_is_refused(text: Any) -> None:
    for encode in (byte_bpe.encode, byte_bpe.encode_with_offsets):
        with pytest.raises(UserError, match="no text in Unicode"):
            encode(text)
    with pytest.raises(UserError, match="no text in Unicode"):
        byte_bpe.encode_many(["the cat", text])


def test_character_level_bpe_knows_only_seen_characters() -> None:
    tokenizer = Bpe(bytes=False).train(iter(TEXTS))
    assert tokenizer.decode(tokenizer.encode(TEXTS[0])) == TEXTS[0]
    assert tokenizer.encode("é") == [tokenizer.encode("a ")[-1], tokenizer.unk]
    assert byte_bpe.encode("é") != [byte_bpe.unk]


def test_bpe_merges_the_most_frequent_pair_first() -> None:
    tokenizer = Bpe(bytes=False).train(iter(["ab ab ab cd cd"]))
    merges = tokenizer.to_dict()["model"]["merges"]
    assert merges[0] == ["a", "b"]


def test_rare_words_are_unknown_and_stay_visible() -> None:
    tokenizer = Word(minimum_count=2).train(iter(["one one two", "one three three"]))
    assert tokenizer.size == 7 + 2
    assert tokenizer.decode(tokenizer.encode("one two three")) == "one <unk> three"


def test_word_vocabulary_keeps_the_most_frequent() -> None:
    tokenizer = Word(vocabulary=9, minimum_count=1).train(iter(["c b b a a a"]))
    assert tokenizer.tokens([7, 8]) == ["a", "b"]


def test_word_punctuation_apart_or_attached() -> None:
    text = ["can't stop."] * 2
    apart = Word().train(iter(text))
    attached = Word(punctuation="attached").train(iter(text))
    assert apart.tokens(apart.encode(text[0])) == ["can", "'", "t", "stop", "."]
    assert attached.tokens(attached.encode(text[0])) == ["can't", "stop."]


def test_unk_in_the_corpus_is_the_unknown_token() -> None:
    tokenizer = Word(punctuation="attached").train(iter(["the <unk> sat"] * 2))
    assert tokenizer.encode("the <unk> sat")[1] == tokenizer.unk


def test_one_id_per_character() -> None:
    tokenizer = Character().train(iter(["ab\n c"]))
    assert tokenizer.size == 7 + 5
    assert len(tokenizer.encode("a\n\n b")) == 5
    assert tokenizer.decode(tokenizer.encode("a\n\n b")) == "a\n\n b"


def test_unigram_scores_are_independent_of_hash_order() -> None:
    first = [("ab", -1.0), ("x", -9.0 + 1e-4), ("y", -9.0), ("z", -9.0 + 2e-4), ("cd", -8.5)]
    second = [("ab", -1.0 + 1e-12), ("x", -9.0), ("y", -9.0 + 2e-4), ("z", -9.0 + 1e-4)]
    assert deterministic_scores(first) == deterministic_scores([*second, ("cd", -8.5)])
    assert [piece for piece, _ in deterministic_scores(first)] == ["ab", "cd", "x", "y", "z"]


def test_excess_unigram_pieces_are_pruned_but_no_character() -> None:
    pieces = [("ab", -1.0), ("cd", -2.0), ("x", -9.0), ("y", -8.0)]
    assert [piece for piece, _ in prune_pieces(pieces, 3)] == ["ab", "x", "y"]
    assert [piece for piece, _ in prune_pieces(pieces, 1)] == ["x", "y"]
    assert prune_pieces(pieces, 4) == pieces


@pytest.mark.parametrize(
    ("words", "role", "spelled"),
    [
        (("<|endoftext|>", "a"), "start", "<|endoftext|>"),
        (("<|endoftext|>", "a"), "stop", "<|endoftext|>"),
        (("<unk>", "<s>", "</s>"), "start", "<s>"),
        (("<unk>", "<s>", "</s>"), "stop", "</s>"),
        (("<s>", "<pad>", "</s>", "<unk>", "<mask>"), "cls", "<s>"),
        (("<s>", "<pad>", "</s>", "<unk>", "<mask>"), "sep", "</s>"),
        (("<s>", "<pad>", "</s>", "<unk>", "<mask>"), "mask", "<mask>"),
        (tuple(BERT), "cls", "[CLS]"),
        (tuple(BERT), "stop", "[SEP]"),
        (tuple(BERT), "pad", "[PAD]"),
    ],
)
def test_roles_by_spellings_of_other_tokenizers(
    words: tuple[str, ...], role: str, spelled: str
) -> None:
    assert with_vocabulary(*words).require(role) == words.index(spelled)


def test_missing_role_names_tokenizer_and_role() -> None:
    gpt2 = with_vocabulary("<|endoftext|>", "a")
    assert gpt2.unk is None
    assert gpt2.pad is None
    with pytest.raises(UserError, match=r"invented \(2 pieces\) .*'mask'"):
        gpt2.require("mask")


@pytest.mark.parametrize(
    ("words", "padding"),
    [
        (("a", "<pad>", "</s>"), "<pad>"),
        (("a", "<|endoftext|>"), "<|endoftext|>"),
        (("a", "b"), "a"),
    ],
)
def test_padding_id_without_a_pad_token(words, padding) -> None:
    assert with_vocabulary(*words).padding_id == words.index(padding)


def test_decode_drops_special_tokens() -> None:
    ids = [byte_bpe.start, *byte_bpe.encode("the cat"), byte_bpe.stop, byte_bpe.pad]
    assert byte_bpe.decode(ids) == "the cat"


def test_padding_and_truncation_of_a_file_are_disabled(tmp_path) -> None:
    plain = byte_bpe.save(tmp_path / "plain")
    engine = tokenizers.Tokenizer.from_file(str(plain / "tokenizer.json"))
    engine.enable_truncation(2)
    engine.enable_padding(length=8)
    engine.save(str(tmp_path / "other.json"))
    loaded = Tokenizer.load(tmp_path / "other.json")
    assert loaded.name == "other"
    assert loaded.encode(TEXTS[0]) == byte_bpe.encode(TEXTS[0])
    assert loaded.fingerprint == byte_bpe.fingerprint


def test_saved_config_is_that_of_transformers(tmp_path) -> None:
    config = json.loads((byte_bpe.save(tmp_path) / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (config["bos_token"], config["eos_token"]) == ("<start>", "<stop>")
    assert (config["pad_token"], config["mask_token"]) == ("<pad>", "[MASK]")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_vocab_txt_without_capitals_lower_cases(tmp_path) -> None:
    folder = tmp_path / "bert-small"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(BERT) + "\n")
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.name == "bert-small, lower-casing"
    assert tokenizer.tokens(tokenizer.encode("The cats sat.")) == ["the", "cat", "##s", "sat", "."]
    assert tokenizer.decode(tokenizer.encode("the cats")) == "the cats"
    (folder / "vocab.txt").write_text("\n".join([*BERT, "The"]) + "\n")
    cased = Tokenizer.load(folder / "vocab.txt")
    assert cased.name == "bert-small"
    assert cased.tokens(cased.encode("The cats sAt")) == ["The", "cat", "##s", "[UNK]"]
    assert cased.fingerprint != tokenizer.fingerprint


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", b"the\ncat\n", "not a WordPiece vocabulary"),
        ("vocab.txt", b"[UNK]\nthe\ncat\nthe\n", "lines 2 and 4 hold the same piece"),
        ("vocab.txt", b"\xff\xfe\x00", "UTF-8"),
        ("vocab.txt", b"", "not a WordPiece vocabulary"),
        ("tokenizer.json", b"", "not a tokenizer, or damaged"),
        ("tokenizer.json", b'{"model": 3}', "not a tokenizer, or damaged"),
        (
            "tokenizer.json",
            b'{"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "[UNK]",'
            b'"continuing_subword_prefix": "##", "max_input_chars_per_word": 9}}',
            "cannot encode text .*UNK",
        ),
    ],
)
def test_damaged_files(tmp_path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(UserError, match=message) as problem:
            Tokenizer.load(path)
        assert str(tmp_path / name) in str(problem.value)


def test_truncated_file(tmp_path) -> None:
    file = byte_bpe.save(tmp_path) / "tokenizer.json"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UserError, match="damaged"):
        Tokenizer.load(tmp_path)


def test_missing_files(tmp_path) -> None:
    with pytest.raises(UserError, match=r"neither tokenizer\.json nor vocab\.txt"):
        Tokenizer.load(tmp_path)
    with pytest.raises(UserError, match=r"nothing\.json does not exist"):
        Tokenizer.load(tmp_path / "nothing.json")


def test_damaged_tokenizer_config(tmp_path) -> None:
    (byte_bpe.save(tmp_path) / "tokenizer_config.json").write_text("{\n,")
    with pytest.raises(UserError, match=r"tokenizer_config.json, line 2: is not JSON"):
        Tokenizer.load(tmp_path)


def test_unwritable_folder(tmp_path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UserError, match=r"tokenizer: .*taken: cannot be written"):
        byte_bpe.save(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "a file"


def test_another_tokenizer_is_refused_by_name() -> None:
    check_same_tokenizer(byte_bpe.fingerprint, byte_bpe, owner="model runs/a")
    other = Character().train(iter(TEXTS))
    with pytest.raises(UserError) as problem:
        check_same_tokenizer(byte_bpe.fingerprint, other, owner="model runs/a")
    assert str(problem.value) == (
        f"model runs/a expects tokenizer {byte_bpe.short_fingerprint}…, this file is "
        f"{other.short_fingerprint}… (character, {other.size} pieces): ids would mean other words"
    )


def test_too_small_vocabulary_names_a_sufficient_size() -> None:
    for name in ("bpe", "wordpiece", "unigram"):
        kind = TOKENIZERS.get(name).part
        with pytest.raises(UserError, match=r"Set tokenizer\.vocabulary = \d+ or more") as problem:
            kind(vocabulary=9).train(iter(TEXTS))
        needed = int(str(problem.value).split("vocabulary = ")[-1].split()[0])
        assert kind(vocabulary=needed).train(iter(TEXTS)).size == needed


def test_size_counts_gaps_in_the_ids() -> None:
    engine = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "a": 9}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    assert Tokenizer(engine, name="gaps").size == 10
