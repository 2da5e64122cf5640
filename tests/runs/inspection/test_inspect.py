"""Looking into models that were never trained: tokens, losses and weights belong together."""

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
from regard.objectives import Vocabulary
from regard.objectives.causal import Causal
from regard.runs.inspection.inspect import inspect_text
from regard.runs.inspection.inspection import AttentionMap, TokenRow
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


def test_a_decoder_tells_the_next_token_as_evaluation_does(tokenizer):
    model = build("decoder", tokenizer)
    seen = inspect_text(model, tokenizer, TEXT)
    words = TEXT.removesuffix(".").split()
    assert seen.row.tokens[:3] == ("<start>", *words[:2])
    assert [told.token for told in seen.losses] == [*seen.row.tokens[1:], "<stop>"]
    measured = document_losses(
        model,
        [np.array(tokenizer.encode(TEXT))],
        Causal(),
        vocabulary=Vocabulary.from_tokenizer(tokenizer),
        pad=tokenizer.require("pad"),
    )
    assert sum(told.loss for told in seen.losses) == pytest.approx(measured.losses[0], rel=1e-5)
    assert [one.name for one in seen.maps] == ["block.0.attention", "block.1.attention"]
    for one in seen.maps:
        assert one.weights.shape == (2, len(seen.row.ids), len(seen.row.ids))
        assert np.allclose(one.weights.sum(axis=-1), 1)


def test_an_encoder_is_asked_for_each_token_hidden_alone(tokenizer):
    model = build("encoder", tokenizer)
    seen = inspect_text(model, tokenizer, TEXT)
    assert (seen.row.tokens[0], seen.row.tokens[-1]) == ("<start>", "<stop>")
    assert [told.token for told in seen.losses] == list(seen.row.tokens[1:-1])
    assert any("masked alone" in remark for remark in seen.remarks)
    ids = torch.tensor([seen.row.ids])
    ids[0, 2] = tokenizer.require("mask")
    scores = torch.log_softmax(model.logits(ids)[0, 2], dim=-1)
    assert seen.losses[1].loss == pytest.approx(-scores[seen.row.ids[2]].item(), abs=1e-5)


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
def test_a_writer_tells_the_target_from_the_source(family, tokenizer):
    table = {"attention": "additive"} if family == "recurrent" else {}
    seen = inspect_text(build(family, tokenizer, **table), tokenizer, TEXT, target="a dog hears")
    assert seen.source.tokens[:3] == ("<start>", "the", "cat")
    assert seen.row.tokens == ("<start>", "a", "dog", "hears")
    assert [told.token for told in seen.losses] == ["a", "dog", "hears", "<stop>"]
    sides = {one.name: (one.queries is seen.source, one.keys is seen.source) for one in seen.maps}
    if family == "recurrent":
        assert sides == {"attention": (False, True)}
    else:
        assert sides["encoder.block.1.attention"] == (True, True)
        assert sides["decoder.block.1.attention"] == (False, False)
        assert sides["decoder.block.1.cross_attention"] == (False, True)
    for one in seen.maps:
        assert one.weights.shape[1:] == (len(one.queries.ids), len(one.keys.ids))


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
def test_without_a_target_the_model_writes_one_and_it_is_said(family, tokenizer):
    table = {"attention": "dot"} if family == "recurrent" else {}
    seen = inspect_text(build(family, tokenizer, **table), tokenizer, TEXT)
    assert any("what the model writes" in remark for remark in seen.remarks)
    assert 1 <= len(seen.row.ids) <= CONTEXT
    assert len(seen.losses) == len(seen.row.ids)


@pytest.mark.parametrize(
    ("family", "kept"), [("decoder", "first"), ("encoder", "first"), ("encoder-decoder", "last")]
)
def test_a_row_longer_than_the_context_is_cut_and_it_is_said(family, kept, tokenizer):
    seen = inspect_text(build(family, tokenizer), tokenizer, "the cat sees a dog again " * 5)
    read = seen.source or seen.row
    assert len(read.ids) == CONTEXT
    [remark] = [remark for remark in seen.remarks if "the model sees 16" in remark]
    assert f"the {kept} are read" in remark


def test_unknown_words_are_counted(tokenizer):
    seen = inspect_text(build("decoder", tokenizer), tokenizer, "the zyzzyva sees")
    assert "1 of 4 tokens are unknown to the tokenizer" in seen.remarks


def test_json_holds_the_same_with_six_digits(tokenizer):
    seen = inspect_text(build("encoder-decoder", tokenizer), tokenizer, TEXT, target="a dog")
    table = json.loads(json.dumps(seen.as_dict(), allow_nan=False))
    assert table["row"]["tokens"] == list(seen.row.tokens)
    assert [one["name"] for one in table["attention"]] == [one.name for one in seen.maps]
    last = table["attention"][-1]
    assert (last["layer"], last["queries"], last["keys"]) == (1, "row", "source")
    for written, one in zip(table["attention"], seen.maps, strict=True):
        assert np.abs(np.array(written["weights"]) - one.weights).max() <= 5.1e-7
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
def test_what_cannot_be_read_is_said(text, target, says, tokenizer):
    with pytest.raises(UserError, match=says):
        inspect_text(build("decoder", tokenizer), tokenizer, text, target=target)


def test_an_empty_target_is_refused(tokenizer):
    with pytest.raises(UserError, match="the target is empty"):
        inspect_text(build("encoder-decoder", tokenizer), tokenizer, TEXT, target="")


def test_a_model_without_attention_has_nothing_to_show(tokenizer):
    with pytest.raises(UserError, match="no attention to inspect"):
        inspect_text(build("recurrent", tokenizer), tokenizer, TEXT)


def test_a_diverged_model_is_named(tokenizer):
    model = build("decoder", tokenizer)
    model.stack.blocks[1].attention.query.weight.data.fill_(torch.nan)
    with pytest.raises(UserError, match=r"weights of block\.1\.attention are not all finite"):
        inspect_text(model, tokenizer, TEXT)


def test_a_kind_that_gives_no_weights_is_said(tokenizer, monkeypatch):
    model = build("decoder", tokenizer)
    first, second = (block.attention for block in model.stack.blocks)

    def silent(mixer):
        forward = mixer.forward
        return lambda x, **given: forward(x, **given)._replace(weights=None)

    monkeypatch.setattr(first, "forward", silent(first))
    seen = inspect_text(model, tokenizer, TEXT)
    assert [one.name for one in seen.maps] == ["block.1.attention"]
    assert "block.0.attention has no weights to show: its kind makes none" in seen.remarks
    monkeypatch.setattr(second, "forward", silent(second))
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
def test_tokens_are_spelled_for_people(kind, expected):
    tokenizer = kind.train(iter(generated_sentences(300)))
    seen = inspect_text(build("decoder", tokenizer), tokenizer, "the cat")
    assert seen.row.tokens[1:] == expected


def test_names_tell_part_and_layer():
    row = TokenRow((1,), ("a",))
    names = {
        "block.12.attention": ("attention", 12),
        "decoder.block.0.cross_attention": ("decoder cross attention", 0),
        "attention": ("attention", 0),
    }
    for name, (stack, layer) in names.items():
        one = AttentionMap(name, row, row, np.ones((1, 1, 1)))
        assert (one.stack, one.layer) == (stack, layer)


@settings(max_examples=50)
@given(arrays(np.float64, (3, 4, 5), elements=st.floats(0, 1)), st.floats(0.1, 10))
def test_entropy_lies_between_one_key_and_all_and_ignores_scale(weights, scale):
    weights = np.where(weights < 1e-9, 0, weights)
    row = TokenRow((1,), ("a",))
    spread = AttentionMap("attention", row, row, weights).entropies
    assert (spread >= 0).all()
    assert (spread <= np.log(5) + 1e-9).all()
    scaled = AttentionMap("attention", row, row, scale * weights).entropies
    assert np.allclose(spread, scaled)


def test_entropy_of_known_heads():
    row = TokenRow((1,), ("a",))
    uniform, sharp, blind = np.full((2, 4), 0.25), np.eye(4)[:2], np.zeros((2, 4))
    half_blind = np.stack([np.full(4, 0.25), np.zeros(4)])
    heads = np.stack([uniform, sharp, blind, half_blind])
    spread = AttentionMap("attention", row, row, heads).entropies
    assert spread == pytest.approx([np.log(4), 0, 0, np.log(4)])
