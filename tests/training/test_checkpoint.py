"""Checkpoints: atomic, bitwise round trip of weights and optimizer moments, damage detected."""

import json

import pytest
import torch

from regard.core.errors import UserError
from regard.core.files import find_damage
from regard.data.tokenizers.character import Character
from regard.models.families.decoder import Decoder
from regard.training.batch_loader import Cursor
from regard.training.checkpoint import (
    WEIGHTS_FILE,
    TrainingState,
    latest_intact_checkpoint,
    list_checkpoints,
    load_moments,
    load_state,
    load_weights,
    prune_checkpoints,
    save_checkpoint,
)
from regard.training.optimizer import build_optimizer
from regard.training.settings import Train

TOKENIZER = Character().train(iter(["some words"]))


def train_one_step(seed: int, **settings):
    model = Decoder(layers=1, heads=1, width=4, context=4, **settings).build(
        vocabulary=20, seed=seed
    )
    optimizer = build_optimizer(model, Train())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return model, optimizer


def save(folder, step, *, seed=0):
    model, optimizer = train_one_step(seed)
    state = TrainingState(step=step, cursor=Cursor(1, 2), tokens=7, machine={"threads": 2})
    save_checkpoint(folder, model, optimizer, state, tokenizer=TOKENIZER, config={"a": 1})
    return model, optimizer, state


@pytest.mark.parametrize("tied", [True, False])
def test_weights_and_moments_round_trip(tmp_path, tied):
    model, optimizer = train_one_step(0, tied=tied)
    state = TrainingState(step=5, cursor=Cursor(1, 2), best_loss=2.5, machine={"threads": 2})
    path = save_checkpoint(tmp_path, model, optimizer, state, tokenizer=TOKENIZER, config={"a": 1})
    other, other_optimizer = train_one_step(1, tied=tied)
    assert load_state(path) == state
    load_weights(other, path / WEIGHTS_FILE)
    load_moments(path, dict(other.named_parameters()), other_optimizer)
    for (name, saved), loaded in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(saved, loaded), name
        for key, moment in optimizer.state[saved].items():
            assert torch.equal(moment, other_optimizer.state[loaded][key]), (name, key)


def test_all_moments_of_a_checkpoint_go_to_the_device(tmp_path):
    """The step count stayed on the CPU, where the fused optimizer of a GPU cannot count it."""
    save(tmp_path, 5)
    model, optimizer = train_one_step(1)
    model.to("meta")
    optimizer = build_optimizer(model, Train())
    load_moments(tmp_path / "step-000005", dict(model.named_parameters()), optimizer)
    moments = [tensor for state in optimizer.state.values() for tensor in state.values()]
    assert {"step", "exp_avg", "exp_avg_sq"} == {*next(iter(optimizer.state.values()))}
    assert {tensor.device.type for tensor in moments} == {"meta"}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["weights", "moments"])
def test_no_checkpoint_of_non_finite_numbers_is_written_or_resumed(
    tmp_path, monkeypatch, value, where
):
    save(tmp_path, 3)
    model, optimizer = train_one_step(0)
    parameter = next(model.parameters())
    spoiled = parameter if where == "weights" else optimizer.state[parameter]["exp_avg"]
    with torch.no_grad():
        spoiled.view(-1)[0] = value
    state = TrainingState(step=6)
    with pytest.raises(UserError, match="not finite after step 6"):
        save_checkpoint(tmp_path, model, optimizer, state, tokenizer=TOKENIZER, config={})
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-000003"]

    monkeypatch.setattr("regard.training.checkpoint._find_non_finite", lambda *_: None)
    save_checkpoint(tmp_path, model, optimizer, state, tokenizer=TOKENIZER, config={})
    monkeypatch.undo()
    latest, damages = latest_intact_checkpoint(tmp_path)
    assert latest == tmp_path / "step-000003"
    assert "step-000006" in damages[0]


def test_a_buffer_may_hold_infinities(tmp_path):
    model, optimizer = train_one_step(0)
    model.register_buffer("mask", torch.tensor([0.0, float("-inf")]))
    state = TrainingState(step=3)
    path = save_checkpoint(tmp_path, model, optimizer, state, tokenizer=TOKENIZER, config={})
    assert latest_intact_checkpoint(tmp_path) == (path, [])


def test_only_safetensors_and_json_are_written(tmp_path):
    save(tmp_path, 3)
    names = {file.name for file in (tmp_path / "step-000003").iterdir()}
    assert names == {
        "config.json",
        "manifest.json",
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    for name in names:
        if name.endswith(".json") and not name.startswith("tokenizer"):
            assert json.loads((tmp_path / "step-000003" / name).read_text())["schema"] >= 1


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, file):
    save(tmp_path, 3)
    save(tmp_path, 6)
    target = tmp_path / "step-000006" / file
    content = bytearray(target.read_bytes())
    content[len(content) // 2] ^= 1
    target.write_bytes(content)
    intact, damages = latest_intact_checkpoint(tmp_path)
    assert intact.name == "step-000003"
    assert f"{target} does not match its manifest" in damages[0]
    target.unlink()
    assert f"{target} is missing" in latest_intact_checkpoint(tmp_path)[1][0]


def test_checkpoint_without_manifest_is_damaged(tmp_path):
    save(tmp_path, 3)
    (tmp_path / "step-000003" / "manifest.json").unlink()
    assert latest_intact_checkpoint(tmp_path)[0] is None
    assert "manifest.json is missing" in find_damage(tmp_path / "step-000003")


def test_pruning_keeps_the_latest_and_the_best_checkpoint(tmp_path):
    for step in (1, 2, 3, 4):
        save(tmp_path, step)
    save(tmp_path, 9)  # skipped as damaged when the run was resumed
    prune_checkpoints(tmp_path, latest_step=4, keep=2, best_step=1)
    assert [path.name for path in list_checkpoints(tmp_path)] == [
        "step-000001",
        "step-000003",
        "step-000004",
    ]


def test_mismatched_weights_are_refused_by_name(tmp_path):
    save(tmp_path, 3)
    wider = Decoder(layers=1, heads=1, width=6, context=4).build(vocabulary=20, seed=0)
    deeper = Decoder(layers=2, heads=1, width=4, context=4).build(vocabulary=20, seed=0)
    file = tmp_path / "step-000003" / "model.safetensors"
    with pytest.raises(UserError, match=r"\(20, 4\).*\(20, 6\)"):
        load_weights(wider, file)
    with pytest.raises(UserError, match=r"not in the file .*blocks\.1"):
        load_weights(deeper, file)
