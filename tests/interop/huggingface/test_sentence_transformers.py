"""sentence-transformers folders: pooling, normalisation and truncation are imported."""

from __future__ import annotations

import json

import numpy as np
import pytest
import transformers
from tests.interop.transformers_models import SMALL, import_and_load, randomise, save_checkpoint
from tokenizers.processors import TemplateProcessing

import regard
from regard.core.errors import UserError
from regard.interop.huggingface.sentence_transformers import read_sentence_encoder_config

PACKAGE = "sentence_transformers.models."


def write_config(folder, *classes, pooling=None, length=None):
    """Write the config files of sentence-transformers: modules, pooling, length limit."""
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    modules = [
        {"name": str(number), "type": PACKAGE + name, "path": paths.get(name, f"{number}_{name}")}
        for number, name in enumerate(classes)
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
def test_supported_pooling_modes(pooling, expected, tmp_path):
    config = read_sentence_encoder_config(
        write_config(tmp_path / "a", "Transformer", "Pooling", pooling=pooling)
    )
    assert config.pooling == expected
    assert not config.normalise
    assert not config.remarks


@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
        {"pooling_mode": "weightedmean"},
        {},
    ],
)
def test_unsupported_pooling_is_remarked(pooling, tmp_path):
    config = read_sentence_encoder_config(
        write_config(tmp_path / "a", "Transformer", "Pooling", pooling=pooling)
    )
    assert config.pooling is None
    assert "which regard does not have" in config.remarks[0]


def test_layer_after_the_pooling_is_remarked(tmp_path):
    folder = write_config(
        tmp_path / "a",
        *("Transformer", "Pooling", "Dense", "Normalize"),
        pooling={"pooling_mode": "mean"},
        length=128,
    )
    config = read_sentence_encoder_config(folder)
    assert config.pooling is None
    assert any("Dense" in remark for remark in config.remarks)
    assert any("128 tokens" in remark for remark in config.remarks)


def test_pooling_is_stored_in_the_model_folder(tmp_path):
    model = randomise(transformers.BertModel(transformers.BertConfig(**SMALL)))
    folder = save_checkpoint(model, tmp_path / "theirs")
    write_config(
        folder, "Transformer", "Pooling", "Normalize", pooling={"pooling_mode": "mean"}, length=9
    )
    _, report = import_and_load(folder, tmp_path / "ours")
    stored = json.loads((tmp_path / "ours" / "config.json").read_text())["imported"]
    assert (stored["pooling"], stored["normalise"]) == ("mean", True)
    assert any("9 tokens" in remark for remark in stored["remarks"])
    (line,) = (line for line in report.lines() if line.startswith("sentences"))
    assert all(fact in line for fact in ("mean pooling", "normalised", "9 tokens"))


@pytest.mark.parametrize("length", [None, 9])
@pytest.mark.parametrize("after_pooling", [(), ("Normalize",)])
def test_embeddings_equal_sentence_transformers(after_pooling, length, tmp_path):
    model = randomise(transformers.BertModel(transformers.BertConfig(**SMALL)))
    folder = save_checkpoint(model, tmp_path / "theirs")
    text = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        **{"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"},
        model_max_length=20,
    )
    text._tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    text.save_pretrained(folder)
    write_config(
        folder,
        "Transformer",
        "Pooling",
        *after_pooling,
        pooling={"pooling_mode": "mean"},
        length=length,
    )
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True})
    )
    texts = ["word1 word2", " ".join(f"word{n}" for n in range(16))]
    from sentence_transformers import SentenceTransformer  # takes seconds to import

    theirs = SentenceTransformer(str(folder), device="cpu")
    expected = theirs.encode(texts)
    import_and_load(folder, tmp_path / "ours")
    found = regard.load(tmp_path / "ours").encode(texts)
    assert np.abs(found - expected).max() < 1e-5
    norms = np.linalg.norm(found, axis=1)
    assert np.allclose(norms, 1, atol=1e-5) == bool(after_pooling)


@pytest.mark.parametrize("modules", [{}, [], [{"type": "x.Pooling", "path": "../up"}], [3]])
def test_invalid_modules_are_refused(modules, tmp_path):
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match="is not a list of modules"):
        read_sentence_encoder_config(tmp_path)


def test_folder_without_modules_has_no_pooling(tmp_path):
    config = read_sentence_encoder_config(tmp_path)
    assert (config.pooling, config.normalise, config.remarks) == (None, False, [])
