"""Reading checkpoint folders: incomplete and unsafe ones are refused in one sentence."""

from __future__ import annotations

import json
import pickle

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tests.interop.transformers_models import SMALL, randomise, save_checkpoint

from regard.core.errors import UserError
from regard.interop.huggingface.checkpoint import INDEX, WEIGHTS, read_checkpoint


@pytest.fixture
def folder(tmp_path):
    model = randomise(transformers.BertModel(transformers.BertConfig(**SMALL)))
    return save_checkpoint(model, tmp_path / "theirs")


@pytest.fixture
def sharded(tmp_path):
    model = randomise(transformers.BertModel(transformers.BertConfig(**SMALL)))
    return save_checkpoint(model, tmp_path / "shards", max_shard_size="6KB")


def test_one_file_and_shards_give_the_same_tensors(folder, sharded):
    single = read_checkpoint(folder).tensors
    shards = read_checkpoint(sharded).tensors
    assert list(single) == list(shards)
    for name, tensor in load_file(folder / WEIGHTS).items():
        assert torch.equal(single[name].read(), tensor)
        assert torch.equal(shards[name].read(), tensor)
        assert shards[name].shape == tuple(tensor.shape)


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('this was run')",))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "a.pt"])
def test_pickles_are_refused_with_a_hint(folder, name):
    (folder / WEIGHTS).unlink()
    (folder / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UserError) as error:
        read_checkpoint(folder)
    assert f"{name} is a pickle" in str(error.value)
    assert "save_pretrained" in str(error.value)


def test_pickle_beside_safetensors_is_not_opened(folder):
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    assert read_checkpoint(folder).tensors


def test_missing_weights(folder):
    (folder / WEIGHTS).unlink()
    with pytest.raises(UserError, match=r"holds no model\.safetensors"):
        read_checkpoint(folder)


@pytest.mark.parametrize("keep", [0, 5, 200, -1])
def test_truncated_file(folder, keep):
    file = folder / WEIGHTS
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(UserError, match="damaged or truncated"):
        read_checkpoint(folder)


def test_missing_shard_is_named(sharded):
    shard = sorted(sharded.glob("model-*.safetensors"))[1]
    shard.unlink()
    with pytest.raises(UserError) as error:
        read_checkpoint(sharded)
    assert f"{shard}: is missing" in str(error.value)


def edit_index(folder, change):
    file = folder / INDEX
    table = json.loads(file.read_text())
    file.write_text(json.dumps(change(table)))


def test_index_names_a_tensor_that_its_shard_lacks(sharded):
    first = sorted(sharded.glob("model-*.safetensors"))[0].name
    edit_index(sharded, lambda table: {"weight_map": {**table["weight_map"], "extra": first}})
    with pytest.raises(UserError, match=f"extra is not in {first}"):
        read_checkpoint(sharded)


@pytest.mark.parametrize("elsewhere", ["../theirs/model.safetensors", "/etc/passwd", 3])
def test_index_with_a_path_outside_the_folder(folder, sharded, elsewhere):
    edit_index(sharded, lambda table: {"weight_map": {"pooler.dense.bias": elsewhere}})
    with pytest.raises(UserError, match="weight_map") as error:
        read_checkpoint(sharded)
    assert str(sharded / INDEX) in str(error.value)
