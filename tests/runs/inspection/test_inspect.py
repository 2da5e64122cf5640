"""Inspecting untrained models: tokens, losses and attention weights are consistent."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.journeys.workspace import generated_sentences

from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.character import Character
from regard.data.tokenizers.unigram import Unigram
from regard.data.tokenizers.word import Word
from regard.data.tokenizers.wordpiece import WordPiece
from regard.models.families import FAMILIES
from regard.models.inputs import ModelInputs
from regard.objectives import Vocabulary
from regard.objectives.causal import Causal
from regard.runs.inspection.inspect import inspect_text
from regard.runs.inspection.inspection import AttentionMap
from regard.training.document_losses import document_losses

TEXT = "the cat sees every river again."
CONTEXT = 16


@pytest.fixture(scope="module")
def tokenizer():
    return Word().train(iter(generated_sentences(100)))


def build(family: str, tokenizer, **table):
    heads = {} if family == "recurrent" else {"heads": 2, "layers": 2}
    table = {"context": CONTEXT, "width": 8, **heads, **table}
    return read_settings(FAMILIES.get(family).part, table).build(vocabulary=tokenizer.size, seed=0)


def test_losses_of_a_decoder_equal_those_of_evaluation(tokenizer):
    model = build("decoder", tokenizer)
    found = inspect_text(model, tokenizer, TEXT)
    words = TEXT.removesuffix(".").split()
    assert found.row.tokens[:3] == ("<start>", *words[:2])
    assert [one.token for one in found.losses] == [*found.row.tokens[1:], "<stop>"]
    evaluated = document_losses(
        model,
        [np.array(tokenizer.encode(TEXT))],
        Causal(),
        vocabulary=Vocabulary.from_tokenizer(tokenizer),
        pad=tokenizer.require("pad"),
    )
    assert sum(one.loss for one in found.losses) == pytest.approx(evaluated.losses[0], rel=1e-5)
    assert [one.name for one in found.attention] == ["block.0.attention", "block.1.attention"]
    for one in found.attention:
        assert one.weights.shape == (2, len(found.row.ids), len(found.row.ids))
        assert np.allclose(one.weights.sum(axis=-1), 1)


def test_an_encoder_predicts_each_token_masked_alone(tokenizer):
    model = build("encoder", tokenizer)
    found = inspect_text(model, tokenizer, TEXT)
    assert (found.row.tokens[0], found.row.tokens[-1]) == ("<start>", "<stop>")
    assert [one.token for one in found.losses] == list(found.row.tokens[1:-1])
    assert any("masked alone" in remark for remark in found.remarks)
    ids = torch.tensor([found.row.ids])
    ids[0, 2] = tokenizer.require("mask")
    logprobs = torch.log_softmax(model.logits(ModelInputs(ids))[0, 2], dim=-1)
    assert found.losses[1].loss == pytest.approx(-logprobs[found.row.ids[2]].item(), abs=1e-5)


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
def test_a_seq2seq_model_predicts_the_target_from_the_source(family, tokenizer):
    table = {"attention": "additive"} if family == "recurrent" else {}
    found = inspect_text(build(family, tokenizer, **table), tokenizer, TEXT, target="a dog hears")
    assert found.source.tokens[:3] == ("<start>", "the", "cat")
    assert found.row.tokens == ("<start>", "a", "dog", "hears")
    assert [one.token for one in found.losses] == ["a", "dog", "hears", "<stop>"]
    sides = {one.name: (one.queries == "source", one.keys == "source") for one in found.attention}
    if family == "recurrent":
        assert sides == {"attention": (False, True)}
    else:
        assert sides["encoder.block.1.attention"] == (True, True)
        assert sides["decoder.block.1.attention"] == (False, False)
        assert sides["decoder.block.1.cross_attention"] == (False, True)
    for one in found.attention:
        assert one.weights.shape[1:] == tuple(
            len(found.tokens(role)) for role in (one.queries, one.keys)
        )


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
def test_the_default_target_is_the_models_generation(family, tokenizer):
    table = {"attention": "dot"} if family == "recurrent" else {}
    found = inspect_text(build(family, tokenizer, **table), tokenizer, TEXT)
    assert any("greedy generation" in remark for remark in found.remarks)
    assert 1 <= len(found.row.ids) <= CONTEXT
    assert len(found.losses) == len(found.row.ids)


@pytest.mark.parametrize(
    ("family", "kept"), [("decoder", "first"), ("encoder", "first"), ("encoder-decoder", "last")]
)
def test_a_row_longer_than_the_context_is_truncated_with_a_remark(family, kept, tokenizer):
    found = inspect_text(build(family, tokenizer), tokenizer, "the cat sees a dog again " * 5)
    row = found.source or found.row
    assert len(row.ids) == CONTEXT
    [remark] = [remark for remark in found.remarks if "the context is 16" in remark]
    assert f"the {kept} are kept" in remark


def test_unknown_tokens_are_counted(tokenizer):
    found = inspect_text(build("decoder", tokenizer), tokenizer, "the zyzzyva sees")
    assert any(remark.startswith("1 of 4 tokens are unknown") for remark in found.remarks)


def test_json_has_the_same_values_with_six_digits(tokenizer):
    found = inspect_text(build("encoder-decoder", tokenizer), tokenizer, TEXT, target="a dog")
    table = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert table["row"]["tokens"] == list(found.row.tokens)
    assert [one["name"] for one in table["attention"]] == [one.name for one in found.attention]
    last = table["attention"][-1]
    assert (last["layer"], last["queries"], last["keys"]) == (1, "row", "source")
    for saved, one in zip(table["attention"], found.attention, strict=True):
        assert np.abs(np.array(saved["weights"]) - one.weights).max() <= 5.1e-7
    digits = [len(str(w).partition(".")[2]) for w in np.ravel(last["weights"]) if w > 1e-4]
    assert max(digits) <= 6


@pytest.mark.parametrize(
    ("text", "target", "says"),
    [
        ("", None, "the text is empty"),
        (" \n\t", None, "the text is empty"),
        ("caf\udce9", None, "the text is not valid UTF-8"),
        ("the cat", "a dog", "this model takes one text alone"),
    ],
)
def test_unusable_texts_are_refused(text, target, says, tokenizer):
    with pytest.raises(UserError, match=says):
        inspect_text(build("decoder", tokenizer), tokenizer, text, target=target)


def test_an_empty_target_is_refused(tokenizer):
    with pytest.raises(UserError, match="the target is empty"):
        inspect_text(build("encoder-decoder", tokenizer), tokenizer, TEXT, target="")


def test_a_model_without_attention_is_refused(tokenizer):
    with pytest.raises(UserError, match="no attention to inspect"):
        inspect_text(build("recurrent", tokenizer), tokenizer, TEXT)


def test_weights_that_are_not_finite_are_an_error(tokenizer):
    model = build("decoder", tokenizer)
    model.stack.blocks[1].attention.query.weight.data.fill_(torch.nan)
    with pytest.raises(UserError, match=r"weights of block\.1\.attention are not all finite"):
        inspect_text(model, tokenizer, TEXT)


def test_a_kind_without_weights_gets_a_remark(tokenizer, monkeypatch):
    model = build("decoder", tokenizer)
    first, second = (block.attention for block in model.stack.blocks)

    def without_weights(mixer):
        forward = mixer.forward
        return lambda x, **kwargs: forward(x, **kwargs)._replace(weights=None)

    monkeypatch.setattr(first, "forward", without_weights(first))
    found = inspect_text(model, tokenizer, TEXT)
    assert [one.name for one in found.attention] == ["block.1.attention"]
    assert any(remark.startswith("block.0.attention has no weights") for remark in found.remarks)
    monkeypatch.setattr(second, "forward", without_weights(second))
    with pytest.raises(UserError, match="gives no weights"):
        inspect_text(model, tokenizer, TEXT)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Word(), ("the", "cat")),
        (Character(), ("t", "h", "e", "·", "c", "a", "t")),
        (Bpe(), ("the", "·cat")),
        (Bpe(bytes=False), ("·the", "·cat")),
        (Unigram(), ("·", "t", "he", "·ca", "t")),
        (WordPiece(), ("the", "cat")),
    ],
    ids=["word", "character", "bpe", "bpe-characters", "unigram", "wordpiece"],
)
def test_tokens_are_shown_as_text(kind, expected):
    tokenizer = kind.train(iter(generated_sentences(300)))
    found = inspect_text(build("decoder", tokenizer), tokenizer, "the cat")
    assert found.row.tokens[1:] == expected


def attention_map_of(name, weights, keys="row"):
    return AttentionMap(name=name, queries="row", keys=keys, weights=weights)


def test_stack_and_layer_follow_from_the_name():
    names = {
        "block.12.attention": ("attention", 12),
        "decoder.block.0.cross_attention": ("decoder cross attention", 0),
        "attention": ("attention", 0),
    }
    for name, (stack, layer) in names.items():
        one = attention_map_of(name, weights=np.ones((1, 1, 1)))
        assert (one.stack, one.layer) == (stack, layer)


@settings(max_examples=50)
@given(arrays(np.float64, (3, 4, 5), elements=st.floats(0, 1)), st.floats(0.1, 10))
def test_entropy_is_in_range_and_invariant_to_scale(weights, scale):
    weights = np.where(weights < 1e-9, 0, weights)
    entropy = attention_map_of("attention", weights=weights).entropies
    assert (entropy >= 0).all()
    assert (entropy <= np.log(5) + 1e-9).all()
    scaled = attention_map_of("attention", weights=scale * weights).entropies
    assert np.allclose(entropy, scaled)


def test_entropy_of_known_heads():
    uniform, sharp, masked = np.full((2, 4), 0.25), np.eye(4)[:2], np.zeros((2, 4))
    half_masked = np.stack([np.full(4, 0.25), np.zeros(4)])
    heads = np.stack([uniform, sharp, masked, half_masked])
    entropy = attention_map_of("attention", weights=heads).entropies
    assert entropy == pytest.approx([np.log(4), 0, 0, np.log(4)])
