"""What a recorder holds: every attention of a pass, by name, and nothing that changes the pass."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.kinds import ATTENTION
from regard.batch import Batch
from regard.core.settings import read_settings
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.families import FAMILIES

ROWS, PLACES, SOURCE_PLACES = 2, 9, 7
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
    ids = torch.randint(7, 30, (ROWS, PLACES), generator=generator)
    source_valid = torch.ones(ROWS, SOURCE_PLACES, dtype=torch.bool)
    source_valid[1, 4:] = False
    return Batch(
        ids=ids,
        targets=ids.roll(-1, dims=1),
        weights=torch.ones(ROWS, PLACES),
        valid=torch.ones(ROWS, PLACES, dtype=torch.bool),
        segments=None,
        rows=(0, 1),
        source=torch.randint(7, 30, (ROWS, SOURCE_PLACES), generator=generator),
        source_valid=source_valid,
    )


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("kind", ATTENTION.names())
def test_every_kind_gives_its_weights_in_every_family(family, kind):
    model = build(family, attention=kind)
    recorder, rows = AttentionRecorder(), batch()
    told = model.losses(rows, recorder=recorder)
    assert list(recorder.weights) == NAMES[family]
    assert recorder.without == []
    assert torch.allclose(told, model.losses(rows), atol=1e-10)
    for name, weights in recorder.weights.items():
        queries = SOURCE_PLACES if name.startswith("encoder.") else PLACES
        keys = SOURCE_PLACES if name.endswith("cross_attention") else queries
        assert weights.shape == (ROWS, 2, queries, keys), name
        if ATTENTION.get(kind).properties["broken"]:
            continue
        looks = weights.any(dim=-1)  # in padding of the second row a group can be empty
        assert looks[0].all()
        assert torch.allclose(weights.sum(dim=-1), looks.double()), name
        if family != "encoder" and name.endswith("block.0.attention") and queries == PLACES:
            assert not weights.triu(1).any(), name
        if name.endswith("cross_attention"):
            assert not weights[1, :, :, 4:].any(), name


def test_soft_masking_shows_its_leak():
    recorder = AttentionRecorder()
    build("decoder", attention="soft-masked").losses(batch(), recorder=recorder)
    assert recorder.weights["block.0.attention"].triu(1).max() > 0


@pytest.mark.parametrize("attention", ["dot", "additive"])
def test_grouped_heads_have_a_map_for_each_query_head(attention):
    recorder = AttentionRecorder()
    model = build("decoder", attention=attention, key_value_heads=1)
    model.losses(batch(), recorder=recorder)
    first, second = recorder.weights["block.0.attention"][0]
    assert not torch.equal(first, second)


@pytest.mark.parametrize("attention", ["dot", "additive", "linear"])
def test_the_recurrent_model_has_one_attention(attention):
    recorder, rows = AttentionRecorder(), batch()
    model = build("recurrent", attention=attention)
    told = model.losses(rows, recorder=recorder)
    assert torch.allclose(told, model.losses(rows), atol=1e-10)
    assert {name: tuple(w.shape) for name, w in recorder.weights.items()} == {
        "attention": (ROWS, 1, PLACES, SOURCE_PLACES)
    }
    assert not recorder.weights["attention"][1, :, :, 4:].any()


def test_a_recurrent_model_without_attention_records_nothing():
    recorder = AttentionRecorder()
    build("recurrent").losses(batch(), recorder=recorder)
    assert recorder.weights == {}
    assert recorder.without == []


def test_scores_and_losses_record_the_same():
    rows, model = batch(), build("encoder-decoder")
    one, other = AttentionRecorder(), AttentionRecorder()
    model.losses(rows, recorder=one)
    given = {"source": rows.source, "source_valid": rows.source_valid}
    model.logits(rows.ids, **given, recorder=other)
    assert list(one.weights) == list(other.weights)
    for name in one.weights:
        assert torch.equal(one.weights[name], other.weights[name])


@given(st.lists(st.from_regex(r"[a-z]+(\.\d+)?", fullmatch=True), max_size=4))
def test_names_are_the_way_to_a_part(parts):
    recorder = inner = AttentionRecorder()
    for part in parts:
        inner = inner.inside(part)
    inner.take("attention", torch.zeros(1))
    inner.take("other", None)
    assert list(recorder.weights) == [".".join([*parts, "attention"])]
    assert recorder.without == [".".join([*parts, "other"])]


@pytest.mark.parametrize("first", [torch.zeros(1), None])
def test_a_second_pass_needs_a_recorder_of_its_own(first):
    recorder = AttentionRecorder()
    recorder.inside("block.0").take("attention", first)
    with pytest.raises(ValueError, match=r"block\.0\.attention is recorded already"):
        recorder.inside("block.0").take("attention", torch.zeros(1))
