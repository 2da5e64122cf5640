"""Folders that are not whole, or not safe, are refused in one sentence."""

from __future__ import annotations

import json
import pickle

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tests.interop.theirs import SMALL, saved, shaken

from regard.core.errors import UserError
from regard.interop.huggingface.checkpoint import INDEX, WEIGHTS, read_checkpoint


@pytest.fixture
def folder(tmp_path):
    model = shaken(transformers.BertModel(transformers.BertConfig(**SMALL)))
    return saved(model, tmp_path / "theirs")


@pytest.fixture
def sharded(tmp_path):
    model = shaken(transformers.BertModel(transformers.BertConfig(**SMALL)))
    return saved(model, tmp_path / "shards", max_shard_size="6KB")


def test_tensors_are_read_by_name_from_one_file_and_from_shards(folder, sharded):
    whole = read_checkpoint(folder).tensors
    parts = read_checkpoint(sharded).tensors
    assert whole.names() == parts.names()
    for name, tensor in load_file(folder / WEIGHTS).items():
        assert torch.equal(whole.read(name), tensor)
        assert torch.equal(parts.read(name), tensor)
        assert parts.shape(name) == tuple(tensor.shape)


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('this was run')",))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "a.pt"])
def test_pickles_are_refused_with_the_way_round(folder, name):
    (folder / WEIGHTS).unlink()
    (folder / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UserError) as told:
        read_checkpoint(folder)
    assert f"{name} is a pickle" in str(told.value)
    assert "save_pretrained" in str(told.value)


def test_a_pickle_beside_safetensors_is_not_opened(folder):
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    assert read_checkpoint(folder).tensors.names()


def test_no_weights_at_all(folder):
    (folder / WEIGHTS).unlink()
    with pytest.raises(UserError, match=r"holds no model\.safetensors"):
        read_checkpoint(folder)


@pytest.mark.parametrize("keep", [0, 5, 200, -1])
def test_a_file_cut_short(folder, keep):
    file = folder / WEIGHTS
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(UserError, match="damaged or cut short"):
        read_checkpoint(folder)


def test_a_missing_shard_is_named(sharded):
    shard = sorted(sharded.glob("model-*.safetensors"))[1]
    shard.unlink()
    with pytest.raises(UserError) as told:
        read_checkpoint(sharded)
    assert f"{shard}: is missing" in str(told.value)


def _index(folder, change):
    file = folder / INDEX
    table = json.loads(file.read_text())
    file.write_text(json.dumps(change(table)))


def test_an_index_that_names_what_a_shard_does_not_hold(sharded):
    first = sorted(sharded.glob("model-*.safetensors"))[0].name
    _index(sharded, lambda table: {"weight_map": {**table["weight_map"], "extra": first}})
    with pytest.raises(UserError, match=f"extra should be in {first}"):
        read_checkpoint(sharded)


@pytest.mark.parametrize("elsewhere", ["../theirs/model.safetensors", "/etc/passwd", 3])
def test_an_index_that_points_elsewhere(folder, sharded, elsewhere):
    _index(sharded, lambda table: {"weight_map": {"pooler.dense.bias": elsewhere}})
    with pytest.raises(UserError, match="no weight_map from tensors to files beside it"):
        read_checkpoint(sharded)
