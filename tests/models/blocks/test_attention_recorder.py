"""The attention recorder: the weights of every attention by name, with unchanged outputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.kinds import ATTENTION
from regard.batch import Batch
from regard.core.settings import read_settings
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.families import FAMILIES
from regard.models.inputs import ModelInputs
from regard.models.model import token_losses

ROWS, LENGTH, SOURCE_LENGTH = 2, 9, 7
NAMES = {
    "decoder": ["block.0.attention", "block.1.attention"],
    "encoder": ["block.0.attention", "block.1.attention"],
    "encoder-decoder": [
        "encoder.block.0.attention",
        "encoder.block.1.attention",
        "decoder.block.0.attention",
        "decoder.block.0.cross_attention",
        "decoder.block.1.attention",
        "decoder.block.1.cross_attention",
    ],
}


def build(family: str, **table):
    heads = {} if family == "recurrent" else {"heads": 2, "layers": 2}
    settings = {"context": 12, "width": 8, **heads, **table}
    model = read_settings(FAMILIES.get(family).part, settings).build(vocabulary=30, seed=0)
    return model.double().eval()


def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(7, 30, (ROWS, LENGTH), generator=generator)
    source_valid = torch.ones(ROWS, SOURCE_LENGTH, dtype=torch.bool)
    source_valid[1, 4:] = False
    return Batch(
        ids=ids,
        targets=ids.roll(-1, dims=1),
        weights=torch.ones(ROWS, LENGTH),
        valid=torch.ones(ROWS, LENGTH, dtype=torch.bool),
        segments=None,
        rows=(0, 1),
        source=torch.randint(7, 30, (ROWS, SOURCE_LENGTH), generator=generator),
        source_valid=source_valid,
    )


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("kind", ATTENTION.names())
def test_every_kind_records_its_weights_in_every_family(family, kind):
    model = build(family, attention=kind)
    recorder, rows = AttentionRecorder(), batch()
    losses = token_losses(model, rows, recorder=recorder)
    assert list(recorder.weights) == NAMES[family]
    assert recorder.missing == []
    assert torch.allclose(losses, token_losses(model, rows), atol=1e-10)
    for name, weights in recorder.weights.items():
        queries = SOURCE_LENGTH if name.startswith("encoder.") else LENGTH
        keys = SOURCE_LENGTH if name.endswith("cross_attention") else queries
        assert weights.shape == (ROWS, 2, queries, keys), name
        if ATTENTION.get(kind).properties["broken"]:
            continue
        nonempty = weights.any(dim=-1)  # in padding of the second row a group can be empty
        assert nonempty[0].all()
        assert torch.allclose(weights.sum(dim=-1), nonempty.double()), name
        if family != "encoder" and name.endswith("block.0.attention") and queries == LENGTH:
            assert not weights.triu(1).any(), name
        if name.endswith("cross_attention"):
            assert not weights[1, :, :, 4:].any(), name


def test_soft_masking_records_its_leak():
    recorder = AttentionRecorder()
    token_losses(build("decoder", attention="soft-masked"), batch(), recorder=recorder)
    assert recorder.weights["block.0.attention"].triu(1).max() > 0


@pytest.mark.parametrize("attention", ["dot", "additive"])
def test_grouped_heads_record_weights_for_each_query_head(attention):
    recorder = AttentionRecorder()
    model = build("decoder", attention=attention, key_value_heads=1)
    token_losses(model, batch(), recorder=recorder)
    first, second = recorder.weights["block.0.attention"][0]
    assert not torch.equal(first, second)


@pytest.mark.parametrize("attention", ["dot", "additive", "linear"])
def test_the_recurrent_model_has_one_attention(attention):
    recorder, rows = AttentionRecorder(), batch()
    model = build("recurrent", attention=attention)
    losses = token_losses(model, rows, recorder=recorder)
    assert torch.allclose(losses, token_losses(model, rows), atol=1e-10)
    assert {name: tuple(w.shape) for name, w in recorder.weights.items()} == {
        "attention": (ROWS, 1, LENGTH, SOURCE_LENGTH)
    }
    assert not recorder.weights["attention"][1, :, :, 4:].any()


def test_a_recurrent_model_without_attention_records_nothing():
    recorder = AttentionRecorder()
    token_losses(build("recurrent"), batch(), recorder=recorder)
    assert recorder.weights == {}
    assert recorder.missing == []


def test_logits_and_losses_record_the_same():
    rows, model = batch(), build("encoder-decoder")
    by_losses, by_logits = AttentionRecorder(), AttentionRecorder()
    token_losses(model, rows, recorder=by_losses)
    sources = {"source": rows.source, "source_valid": rows.source_valid}
    model.logits(ModelInputs(rows.ids, **sources), recorder=by_logits)
    assert list(by_losses.weights) == list(by_logits.weights)
    for name in by_losses.weights:
        assert torch.equal(by_losses.weights[name], by_logits.weights[name])


@given(st.lists(st.from_regex(r"[a-z]+(\.\d+)?", fullmatch=True), max_size=4))
def test_scopes_are_joined_to_a_dotted_name(names):
    recorder = inner = AttentionRecorder()
    for name in names:
        inner = inner.scope(name)
    inner.record("attention", torch.zeros(1))
    inner.record("other", None)
    assert list(recorder.weights) == [".".join([*names, "attention"])]
    assert recorder.missing == [".".join([*names, "other"])]


@pytest.mark.parametrize("first", [torch.zeros(1), None])
def test_a_recorder_refuses_a_second_pass(first):
    recorder = AttentionRecorder()
    recorder.scope("block.0").record("attention", first)
    with pytest.raises(ValueError, match=r"block\.0\.attention is recorded already"):
        recorder.scope("block.0").record("attention", torch.zeros(1))
