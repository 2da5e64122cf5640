"""Checkpoints: whole or not there, the same weights and moments back, damage named."""

import json

import pytest
import torch

from regard.core.errors import UserError
from regard.core.files import damage
from regard.data.tokenizers.character import Character
from regard.models.families.decoder import Decoder
from regard.training.batch_loader import Cursor
from regard.training.checkpoint import (
    TrainingState,
    checkpoints,
    load_checkpoint,
    load_weights,
    newest_whole,
    prune,
    save_checkpoint,
)
from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

TOKENIZER = Character().train(iter(["some words"]))


def trained(seed: int, **settings):
    model = Decoder(layers=1, heads=1, width=4, context=4, **settings).build(
        vocabulary=20, seed=seed
    )
    optimizer = build_optimizer(model, Train())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return model, optimizer


def save(folder, step, *, seed=0):
    model, optimizer = trained(seed)
    state = TrainingState(step=step, cursor=Cursor(1, 2), tokens=7, machine={"threads": 2})
    save_checkpoint(folder, model, optimizer, state, tokenizer=TOKENIZER, config={"a": 1})
    return model, optimizer, state


@pytest.mark.parametrize("tied", [True, False])
def test_weights_and_moments_come_back(tmp_path, tied):
    model, optimizer = trained(0, tied=tied)
    state = TrainingState(step=5, cursor=Cursor(1, 2), best_loss=2.5, machine={"threads": 2})
    path = save_checkpoint(tmp_path, model, optimizer, state, tokenizer=TOKENIZER, config={"a": 1})
    other, other_optimiser = trained(1, tied=tied)
    assert load_checkpoint(path, other, other_optimiser) == state
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two), name
        for key, moment in optimizer.state[one].items():
            assert torch.equal(moment, other_optimiser.state[two][key]), (name, key)


def test_only_safetensors_and_json_are_written(tmp_path):
    save(tmp_path, 3)
    names = {file.name for file in (tmp_path / "step-000003").iterdir()}
    assert names == {
        "config.json",
        "manifest.json",
        "model.safetensors",
        "optimiser.safetensors",
        "state.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    for name in names:
        if name.endswith(".json") and not name.startswith("tokenizer"):
            assert json.loads((tmp_path / "step-000003" / name).read_text())["schema"] >= 1


@pytest.mark.parametrize("file", ["model.safetensors", "optimiser.safetensors", "state.json"])
def test_a_flipped_byte_or_missing_file_is_found_and_the_one_before_is_taken(tmp_path, file):
    save(tmp_path, 3)
    save(tmp_path, 6)
    target = tmp_path / "step-000006" / file
    content = bytearray(target.read_bytes())
    content[len(content) // 2] ^= 1
    target.write_bytes(content)
    whole, complaints = newest_whole(tmp_path)
    assert whole.name == "step-000003"
    assert f"{target} does not match its manifest" in complaints[0]
    target.unlink()
    assert f"{target} is missing" in newest_whole(tmp_path)[1][0]


def test_a_folder_without_manifest_is_not_whole(tmp_path):
    save(tmp_path, 3)
    (tmp_path / "step-000003" / "manifest.json").unlink()
    assert newest_whole(tmp_path)[0] is None
    assert "manifest.json is missing" in damage(tmp_path / "step-000003")


def test_old_ones_are_dropped_but_the_best_is_spared(tmp_path):
    for step in (1, 2, 3, 4):
        save(tmp_path, step)
    save(tmp_path, 9)  # left by a damaged future that a resumed run passed over
    prune(tmp_path, newest=4, keep=2, spare=1)
    assert [path.name for path in checkpoints(tmp_path)] == [
        "step-000001",
        "step-000003",
        "step-000004",
    ]


def test_weights_of_another_shape_are_refused_by_name(tmp_path):
    save(tmp_path, 3)
    wider = Decoder(layers=1, heads=1, width=6, context=4).build(vocabulary=20, seed=0)
    deeper = Decoder(layers=2, heads=1, width=4, context=4).build(vocabulary=20, seed=0)
    file = tmp_path / "step-000003" / "model.safetensors"
    with pytest.raises(UserError, match=r"has shape \(20, 4\), the model's is \(20, 6\)"):
        load_weights(wider, file)
    with pytest.raises(UserError, match=r"not in the file .*blocks\.1"):
        load_weights(deeper, file)
