"""A head that is off adds nothing: as if its rows of the output projection were zeros."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.generation.decoding_window import DecodingWindow
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.blocks.head_ablation import Head, ablate_heads, attention_layers
from regard.models.families import FAMILIES
from regard.models.inputs import ModelInputs

IDS = torch.tensor([[3, 4, 5, 6, 7, 8]])


def build(family, **table):
    settings = {"context": 16, "width": 8, **table}
    if family != "recurrent":
        settings |= {"heads": 2, "layers": 2}
    return read_settings(FAMILIES.get(family).part, settings).build(vocabulary=20, seed=2).eval()


def inputs_of(model):
    valid = torch.ones_like(IDS, dtype=torch.bool)
    if model.reads == "row":
        return ModelInputs(IDS)
    return ModelInputs(IDS[:, :3], source=IDS, source_valid=valid)


MODELS = {
    "decoder": ("decoder", {}),
    "encoder": ("encoder", {}),
    "encoder-decoder": ("encoder-decoder", {}),
    "recurrent": ("recurrent", {"attention": "additive"}),
    "linear": ("decoder", {"attention": "linear"}),
    "grouped": ("decoder", {"key_value_heads": 1}),
    "synthesizer": ("decoder", {"attention": "synthesizer-random"}),
}


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_off_equals_zeros_in_the_output_projection(name):
    family, table = MODELS[name]
    model, twin = build(family, **table), build(family, **table)
    whole = model.logits(inputs_of(model))
    for layer, heads in attention_layers(model).items():
        head = Head(layer, heads - 1)
        path = layer if name == "recurrent" else layer.replace("block.", "blocks.")
        path = path if family in ("encoder-decoder", "recurrent") else f"stack.{path}"
        out = twin.get_submodule(f"{path}.out")
        kept, width = out.weight.clone(), out.weight.shape[1] // heads
        out.weight[:, head.number * width : (head.number + 1) * width] = 0
        with ablate_heads(model, [head]):
            found = model.logits(inputs_of(model))
        assert torch.allclose(found, twin.logits(inputs_of(twin)), atol=1e-6)
        assert not torch.allclose(found, whole, atol=1e-6)
        out.weight.copy_(kept)
    assert torch.equal(model.logits(inputs_of(model)), whole)


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_layers_have_the_names_that_recorded_weights_have(name):
    family, table = MODELS[name]
    model, recorder = build(family, **table), AttentionRecorder()
    model.hidden_states(inputs_of(model), recorder=recorder)
    recorded = {layer: weights.shape[1] for layer, weights in recorder.weights.items()}
    named = attention_layers(model)
    assert list(named) == [*recorder.weights, *recorder.missing]
    assert named == {**named, **recorded}


@torch.inference_mode()
def test_decoding_step_by_step_knows_no_head_that_is_off():
    model = build("decoder")
    off = [Head("block.0.attention", 1), Head("block.1.attention", 0)]
    row = IDS[0].tolist()
    with ablate_heads(model, off):
        whole = model.logits(ModelInputs(IDS))[0]
        window = DecodingWindow(model, pad=0)
        steps = [window.prefill([row[:1]])]
        steps += [window.advance(torch.tensor([token])) for token in row[1:]]
    for n, step in enumerate(steps):
        assert torch.allclose(step[0], whole[n], atol=1e-5)


def test_a_head_that_is_not_there_is_refused():
    model = build("decoder")
    for head, sentence in (
        (Head("block.2.attention", 0), "did you mean block"),
        (Head("block.0.attention", 2), "heads are 0 to 1"),
        (Head("block.0.attention", -1), "heads are 0 to 1"),
    ):
        with pytest.raises(UserError, match=sentence), ablate_heads(model, [head]):
            pass
