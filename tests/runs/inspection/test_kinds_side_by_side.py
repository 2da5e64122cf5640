"""Kinds side by side: equal to `regard.attend` by hand, with the same projections, on any mask."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.journeys.workspace import generated_sentences

import regard
from regard.attention.kinds import ATTENTION
from regard.attention.masks.expression import parse_mask
from regard.attention.masks.painted import mask_of_table, paint, parse_cells
from regard.audits.leaks.permission import Permission
from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.data.tokenizers.word import Word
from regard.models.families import FAMILIES
from regard.runs.inspection.inspect import inspect_text
from regard.runs.inspection.kinds_side_by_side import (
    MAX_TOKENS,
    FreshModels,
    FreshWeights,
    TrainedModels,
    available_kinds,
    kind_settings,
    layers_to_reach,
    read_row,
)

TEXT = "the cat sees every river, and the cat sleeps"
SHARED = ("dot", "additive", "hard", "linear")
"Kinds that project queries and keys."


@pytest.mark.parametrize("kind", SHARED)
def test_weights_equal_regard_attend_on_the_same_projections(kind):
    models = FreshModels.of_text(TEXT, FreshWeights(width=24, heads=3, layers=1, seed=5))
    mask = parse_mask("causal", len(models.row.ids))
    reading = read_row(models.model(kind), models.ids, mask)
    # By hand: the projections are those of the dot-product model, whatever the kind.
    model = models.model("dot").model
    block = model.stack.blocks[0]
    positions = torch.arange(len(models.row.ids))[None]
    x = block.attention_residual.sublayer_input(model.embedding(models.ids, positions))
    shape = block.attention.shape
    q, k, v = (
        shape.split_heads(linear(x))
        for linear in (block.attention.query, block.attention.key, block.attention.value)
    )
    function = models.model(kind).model.stack.blocks[0].attention.function
    expected = regard.attend(q, k, v, mask, function, need_weights=True).weights[0]
    assert reading.attention[0].weights == pytest.approx(
        expected.detach().double().numpy(), abs=1e-6
    )
    assert reading.attention[0].weights.sum(axis=-1) == pytest.approx(1, abs=1e-5)


def test_models_differ_in_what_the_kind_adds_alone():
    models = FreshModels.of_text(TEXT, FreshWeights())
    dot = dict(models.model("dot").model.named_parameters())
    for kind in available_kinds():
        other = dict(models.model(kind).model.named_parameters())
        shared = [name for name in other if name in dot]
        assert "embedding.tokens.weight" in shared
        assert all(torch.equal(dot[name], other[name]) for name in shared)
        if kind in SHARED:
            assert dot.keys() <= other.keys()


def test_a_word_has_the_same_vector_in_every_text():
    def vector(text: str, word: str) -> torch.Tensor:
        models = FreshModels.of_text(text, FreshWeights())
        table = models.model("dot").model.embedding.tokens.weight
        return table[models.row.ids[models.row.tokens.index(word)]]

    assert torch.equal(vector("one cat sleeps", "cat"), vector("no dog and no cat", "cat"))
    assert not torch.equal(vector("one cat", "cat"), vector("one cat", "one"))


def test_what_is_broken_on_purpose_is_not_among_the_kinds():
    broken = {entry.name for entry in ATTENTION if entry.properties["broken"]}
    assert {"zero-masked", "soft-masked"} <= broken
    assert {*available_kinds(), *broken} == set(ATTENTION.names())
    assert next(iter(available_kinds())) == "dot"
    for name in broken:
        with pytest.raises(UserError, match="broken on purpose"):
            kind_settings(name)


def test_a_kind_that_does_not_support_a_mask_is_refused_in_a_sentence():
    models = FreshModels.of_text(TEXT, FreshWeights())
    painted = paint(parse_mask("causal", 10), 10, allow=parse_cells("1.5"))
    assert len(models.row.ids) == 10
    with pytest.raises(UserError, match="does not support the mask causal, painted"):
        read_row(models.model("linear"), models.ids, painted)
    weights = read_row(models.model("dot"), models.ids, painted).attention[0].weights
    assert (weights[:, 1, 5] > 0).all()
    assert (weights[:, 1, 4] == 0).all()


def test_long_texts_are_cut_and_that_is_said():
    models = FreshModels.of_text("so " * (MAX_TOKENS + 3), FreshWeights())
    assert len(models.row.ids) == MAX_TOKENS
    assert models.remarks == ("the text has 515 tokens: the first 512 are shown",)
    for text in ("", " \n"):
        with pytest.raises(UserError, match="there is no text yet"):
            FreshModels.of_text(text, FreshWeights())


@pytest.mark.parametrize("expression", ["causal & sliding-window:2", "same-block:3", "~causal"])
def test_layers_to_reach_are_those_of_the_mask_s_closure(expression):
    allowed = parse_mask(expression, 8).dense(8, 8)[0, 0]
    depths = layers_to_reach(allowed, 8)
    reachable = Permission(expression, lambda t: allowed).reachable(8)
    assert np.array_equal(depths < 255, reachable.numpy())
    itself = allowed | torch.eye(8, dtype=torch.bool)
    assert np.array_equal(depths <= 1, itself.numpy())
    assert np.array_equal(depths == 0, np.eye(8, dtype=bool))
    if expression.startswith("causal"):
        assert depths[7, 0] == 7
        assert layers_to_reach(allowed, 3)[7, 0] == 255


def test_rollout_is_the_product_of_layers_with_their_residual():
    models = FreshModels.of_text(TEXT, FreshWeights(layers=2))
    reading = read_row(models.model("dot"), models.ids, parse_mask("causal", 10))
    first, second = ((one.weights.mean(0) + np.eye(10)) / 2 for one in reading.attention)
    assert reading.rollouts[0] == pytest.approx(first, abs=1e-6)
    assert reading.rollouts[1] == pytest.approx(second @ first, abs=1e-6)
    nothing = mask_of_table(torch.zeros(10, 10, dtype=torch.bool), "nothing")
    empty = read_row(models.model("dot"), models.ids, nothing)
    assert np.array_equal(empty.rollouts[1], np.eye(10))


@pytest.fixture(scope="module")
def tokenizer():
    return Word().train(iter(generated_sentences(100)))


def loaded(tokenizer, family: str = "decoder", **table):
    """What of a loaded model is used here; its weights were never trained."""
    heads = {} if family == "recurrent" else {"heads": 2, "layers": 2}
    table = {"context": 16, "width": 8, **heads, **table}
    settings = read_settings(FAMILIES.get(family).part, table)
    model = settings.build(vocabulary=tokenizer.size, seed=3)
    saved = SimpleNamespace(
        family=settings, adapter=SimpleNamespace(virtual_tokens=0), plain_body=lambda: model
    )
    return SimpleNamespace(model=model, saved=saved, tokenizer=tokenizer)


@pytest.mark.parametrize("family", ["decoder", "encoder"])
def test_a_trained_model_reads_as_regard_inspect_does(tokenizer, family):
    one = loaded(tokenizer, family)
    models = TrainedModels.of_text("the cat sees every river", one)
    assert models.kind == "dot"
    mask = parse_mask(models.visibility, len(models.row.ids))
    reading = read_row(models.model("dot"), models.ids, mask)
    inspected = inspect_text(one.model, tokenizer, "the cat sees every river")
    assert models.row == inspected.row
    for mine, theirs in zip(reading.attention, inspected.attention, strict=True):
        assert mine.weights == pytest.approx(theirs.weights, abs=1e-6)


def test_another_kind_takes_the_trained_weights_and_says_which_are_fresh(tokenizer):
    models = TrainedModels.of_text("the cat sees every river", loaded(tokenizer))
    trained = dict(models.body.named_parameters())
    additive = models.model("additive")
    assert additive.fresh
    for name, parameter in additive.model.named_parameters():
        assert (name in additive.fresh) == (name not in trained)
        if name in trained:
            assert torch.equal(parameter, trained[name])
    assert models.model("hard").fresh == ()
    assert models.model("dot").model is models.body
    assert models.model("additive") is additive


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
def test_models_without_one_row_of_self_attention_are_refused(tokenizer, family):
    with pytest.raises(UserError, match="does not read one text by self-attention alone"):
        TrainedModels.of_text("the cat", loaded(tokenizer, family))
