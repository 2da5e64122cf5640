"""What sentence-transformers folders say of pooling."""

from __future__ import annotations

import json

import numpy as np
import pytest
import transformers
from tests.interop.theirs import SMALL, brought, saved, shaken
from tokenizers.processors import TemplateProcessing

import regard
from regard.core.errors import UserError
from regard.interop.huggingface.sentence_transformers import read_sentences

HOME = "sentence_transformers.models."


def told(folder, *sorts, pooling=None, length=None):
    """Write what such a folder says: its modules, its pooling, how long its texts are."""
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"name": str(number), "type": HOME + sort, "path": paths.get(sort, f"{number}_{sort}")}
        for number, sort in enumerate(sorts)
    ]
    folder.mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling or {}))
    if length:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))
    return folder


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_cls_token": True}, "first"),
        ({"pooling_mode": "cls"}, "first"),
        ({"pooling_mode": ["lasttoken"]}, "last"),
    ],
)
def test_each_way_of_pooling(pooling, expected, tmp_path):
    found = read_sentences(told(tmp_path / "a", "Transformer", "Pooling", pooling=pooling))
    assert found.pooling == expected
    assert not found.normalise
    assert not found.remarks


@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
        {"pooling_mode": "weightedmean"},
        {},
    ],
)
def test_other_ways_are_said_not_guessed(pooling, tmp_path):
    found = read_sentences(told(tmp_path / "a", "Transformer", "Pooling", pooling=pooling))
    assert found.pooling is None
    assert "which regard does not have" in found.remarks[0]


def test_a_layer_behind_the_pooling_is_said(tmp_path):
    folder = told(
        tmp_path / "a",
        *("Transformer", "Pooling", "Dense", "Normalize"),
        pooling={"pooling_mode": "mean"},
        length=128,
    )
    found = read_sentences(folder)
    assert found.pooling is None
    assert any("Dense" in remark for remark in found.remarks)
    assert any("128 tokens" in remark for remark in found.remarks)


def test_it_reaches_the_model_folder(tmp_path):
    model = shaken(transformers.BertModel(transformers.BertConfig(**SMALL)))
    folder = saved(model, tmp_path / "theirs")
    told(folder, "Transformer", "Pooling", "Normalize", pooling={"pooling_mode": "mean"}, length=9)
    _, imported = brought(folder, tmp_path / "ours")
    kept = json.loads((tmp_path / "ours" / "config.json").read_text())["imported"]
    assert (kept["pooling"], kept["normalise"]) == ("mean", True)
    assert any("9 tokens" in remark for remark in kept["remarks"])
    assert "sentences     pooled by mean, length 1, cut at 9 tokens" in imported.lines()


@pytest.mark.parametrize("length", [None, 9])
@pytest.mark.parametrize("behind", [(), ("Normalize",)])
def test_vectors_are_those_of_sentence_transformers(behind, length, tmp_path):
    model = shaken(transformers.BertModel(transformers.BertConfig(**SMALL)))
    folder = saved(model, tmp_path / "theirs")
    text = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        **{"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"},
        model_max_length=20,
    )
    text._tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    text.save_pretrained(folder)
    told(folder, "Transformer", "Pooling", *behind, pooling={"pooling_mode": "mean"}, length=length)
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True})
    )
    texts = ["word1 word2", " ".join(f"word{n}" for n in range(16))]
    from sentence_transformers import SentenceTransformer  # takes seconds to import

    theirs = SentenceTransformer(str(folder), device="cpu")
    expected = theirs.encode(texts)
    brought(folder, tmp_path / "ours")
    found = regard.load(tmp_path / "ours").encode(texts)
    assert np.abs(found - expected).max() < 1e-5
    lengths = np.linalg.norm(found, axis=1)
    assert np.allclose(lengths, 1, atol=1e-5) == bool(behind)


@pytest.mark.parametrize("modules", [{}, [], [{"type": "x.Pooling", "path": "../up"}], [3]])
def test_a_list_of_modules_that_is_none(modules, tmp_path):
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match="is not a list of modules"):
        read_sentences(tmp_path)


def test_a_plain_folder_says_nothing(tmp_path):
    found = read_sentences(tmp_path)
    assert (found.pooling, found.normalise, found.remarks) == (None, False, [])
