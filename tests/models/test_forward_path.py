"""The path from `model(batch)` to the attention operation: short, and every module is called."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.adapters.lora import Lora
from regard.attention.function import AttentionFunction
from regard.attention.paths import additive_blocks, dot_blocks, kernels
from regard.batch import Example, collate
from regard.core.settings import read_settings
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.ops import attention as attention_ops

MAX_FRAMES = 8
SOURCE = str(Path(regard.__file__).parent)
VOCABULARY = 23
FAMILIES = {"decoder": Decoder, "encoder": Encoder, "encoder-decoder": EncoderDecoder}
OPERATIONS = [
    (F, "scaled_dot_product_attention"),
    (dot_blocks._DotBlocks, "apply"),
    (additive_blocks._AdditiveBlocks, "apply"),
    (torch, "softmax"),
]
"Whatever computes a softmax over keys, besides the kernels: torch's operations, and ours on them."


def build(family, attention, **settings):
    table = {"layers": 2, "heads": 2, "width": 32, "context": 24, "attention": attention}
    if family == "encoder-decoder":
        table["cross_attention"] = attention
    return read_settings(FAMILIES[family], table | settings).build(vocabulary=VOCABULARY, seed=0)


def batch_of(*lengths):
    draw = np.random.default_rng(0)

    def example(length):
        ids = draw.integers(0, VOCABULARY, length + 1)
        weights = np.ones(length, dtype=np.float32)
        return Example(ids[:-1], ids[1:], weights, source=draw.integers(0, VOCABULARY, length))

    return collate([example(length) for length in lengths], pad_id=0, rows=range(len(lengths)))


def own_frames():
    """Functions of regard on the stack, from the outermost to the caller of the operation."""
    frames, frame = [], sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(SOURCE):
            frames.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return frames[::-1]


@pytest.fixture
def paths(monkeypatch):
    """The frames of each attention operation that is called."""
    recorded = []

    def recording(operation):
        def call(*arguments, **options):
            recorded.append(own_frames())
            return operation(*arguments, **options)

        return call

    operators = {name: recording(getattr(attention_ops, name)) for name in ("DOT", "ADDITIVE")}
    monkeypatch.setattr(kernels, "attention", SimpleNamespace(fits=attention_ops.fits, **operators))
    for owner, name in OPERATIONS:
        monkeypatch.setattr(owner, name, recording(getattr(owner, name)))
    return recorded


@pytest.mark.parametrize("kernel", [True, False], ids=["kernel", "torch"])
@pytest.mark.parametrize("lengths", [(16, 16), (16, 9)], ids=["full", "padded"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("attention", ["dot", "additive"])
@pytest.mark.parametrize("family", FAMILIES)
def test_few_frames_to_the_attention(
    family, attention, dropout, lengths, kernel, paths, monkeypatch
):
    if not kernel:
        monkeypatch.setattr(kernels, "supports", lambda *_: False)
    model = build(family, attention, dropout=dropout)
    model(batch_of(*lengths))
    attentions = {"encoder-decoder": 3}.get(family, 1) * 2
    assert len(paths) >= attentions
    longest = max(paths, key=len)
    assert longest[0] == type(model).forward.__qualname__
    assert len(longest) <= MAX_FRAMES, " > ".join(longest)


@pytest.mark.parametrize("adapter", [None, Lora()], ids=["plain", "lora"])
@pytest.mark.parametrize("norm_placement", ["pre", "post"])
@pytest.mark.parametrize("family", FAMILIES)
def test_hooks_fire_on_every_module_with_parameters(family, norm_placement, adapter):
    model = build(family, "additive", norm_placement=norm_placement)
    if adapter is not None:
        adapter.apply(model, seed=0)
    called = set()
    modules = {
        name: module
        for name, module in model.named_modules()
        if any(True for _ in module.parameters()) and not isinstance(module, nn.ModuleList)
    }
    for name, module in modules.items():
        module.register_forward_hook(lambda *_, name=name: called.add(name))
    model(batch_of(16, 9))
    # An attention function has no forward, and the fused loss takes the head's table without
    # computing all logits.
    functions = {name for name in modules if isinstance(modules[name], AttentionFunction)}
    assert len(functions) >= 2
    assert set(modules) - called == functions | {"head", "head.tokens"}
