"""A tokenizer that contradicts config.json is refused; too many spare rows are remarked."""

from __future__ import annotations

import json

import pytest
import tokenizers
import transformers
from tests.interop.transformers_models import (
    PIECES,
    SMALL,
    VOCABULARY,
    edit_config,
    randomise,
    save_checkpoint,
    tokenizer,
)
from tokenizers import models, pre_tokenizers

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.config_keys import ConfigKeys
from regard.interop.huggingface.vocabulary import check_vocabulary, read_special_tokens
from regard.interop.import_model import import_model


def build_tokenizer(specials, *, words=25) -> Tokenizer:
    pieces = [*specials, "<unk>", *(f"word{n}" for n in range(words))]
    engine = tokenizers.Tokenizer(
        models.WordLevel({piece: number for number, piece in enumerate(pieces)}, "<unk>")
    )
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.add_special_tokens(list(specials))
    return Tokenizer(engine, name="tiny")


def check(tokenizer, *, rows=None, named=None, **config):
    return check_vocabulary(
        tokenizer,
        ConfigKeys(config, file="config.json"),
        rows=rows or tokenizer.size,
        special_tokens=named or {},
    )


@pytest.mark.parametrize(
    "config",
    [
        {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1, "unk_token_id": 3},
        {"cls_token_id": 0, "sep_token_id": 2, "mask_token_id": 4},
        {"pad_token_id": 2},  # padding with the end token is common
        {"pad_token_id": 3},
        {"pad_token_id": -1, "bos_token_id": None},
        {"eos_token_id": [9, 2]},
    ],
)
def test_consistent_special_token_ids(config):
    assert check(tokenizer(), **config) == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"eos_token_id": 50_256}, "eos_token_id is 50,256, and the tokenizer tiny has 30 pieces"),
        ({"bos_token_id": 9}, "bos_token_id is 9, which is the piece 'word4' of the tokenizer"),
        ({"pad_token_id": 0}, "pad_token_id is 0, which is the piece '<s>'"),
        ({"eos_token_id": 0}, "eos_token_id is 0, which is the piece '<s>'"),
        ({"mask_token_id": 3}, "mask_token_id is 3, which is the piece '<unk>'"),
        ({"eos_token_id": [9, 10]}, "eos_token_id is 9, which is the piece 'word4'"),
        ({"eos_token_id": "</s>"}, "a whole number is needed"),
    ],
)
def test_contradicting_special_token_ids_are_refused(config, message):
    with pytest.raises(UserError) as error:
        check(tokenizer(), **config)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_chat_tokens_may_have_any_role_unless_another_is_named():
    chat = build_tokenizer(["<|turn|>", "<|over|>"])
    assert check(chat, eos_token_id=1) == []
    assert check(chat, eos_token_id=1, named={"eos_token": "<|over|>"}) == []
    with pytest.raises(UserError, match=r"the piece '<\|turn\|>'"):
        check(chat, eos_token_id=0, named={"eos_token": "<|over|>"})


def test_special_tokens_of_the_files_beside_the_tokenizer(tmp_path):
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"eos_token": {"content": "<|over|>", "lstrip": False}, "bos_token": "<a>"})
    )
    config = {"bos_token": "<|turn|>", "add_bos_token": True, "model_max_length": 9}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert read_special_tokens(tmp_path) == {"bos_token": "<|turn|>", "eos_token": "<|over|>"}
    assert read_special_tokens(tmp_path / "elsewhere") == {}


@pytest.mark.parametrize(
    ("words", "rows", "doubted"),
    [
        (298, 300, False),
        (298, 384, False),  # to the next multiple of 128
        (298, 400, True),
        (9_998, 10_500, False),  # under a twentieth
        (9_998, 11_000, True),
    ],
)
def test_spare_embedding_rows(words, rows, doubted):
    remarks = check(build_tokenizer(["<s>"], words=words), rows=rows)
    assert bool(remarks) == doubted
    if doubted:
        assert remarks[0].startswith("is tiny its tokenizer?")
        assert f"of its {rows:,} token embeddings" in remarks[0]


def test_import_checks_the_vocabulary(tmp_path):
    wide = transformers.BertConfig(**{**SMALL, "vocab_size": 400})
    folder = save_checkpoint(randomise(transformers.BertModel(wide)), tmp_path / "theirs")
    report = import_model(str(folder), tmp_path / "ours")
    assert any(f"{400 - VOCABULARY} of its 400 token embeddings" in line for line in report.lines())
    assert report.tokenizer.size == len(PIECES)
    edit_config(folder, pad_token_id=7)
    with pytest.raises(UserError, match="'word2' of the tokenizer"):
        import_model(str(folder), tmp_path / "never")
    assert not (tmp_path / "never").exists()
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "word2"}))
    import_model(str(folder), tmp_path / "named")
