"""Continuations: tokens have the model's own probabilities, and texts are those of `generate`."""

from __future__ import annotations

import math

import pytest
import torch
from tests.journeys.workspace import generated_sentences

from regard.core.settings import read_settings
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.word import Word
from regard.generation.generate import BeamSearch, Greedy, Sampling
from regard.models.blocks.head_ablation import Head, ablate_heads
from regard.models.families import FAMILIES
from regard.models.inputs import ModelInputs
from regard.runs.inspection.continuation import (
    DecodedRow,
    continue_row,
    prompt_row,
    row_losses,
    token_probabilities,
)
from regard.runs.inspection.head_effects import head_effects, mean_row_loss
from regard.runs.inspection.inspect import inspect_text
from regard.runs.inspection.logit_lens import logit_lens
from regard.runs.inspection.token_texts import text_pieces
from regard.runs.samples import generate_texts

PROMPT = "the cat sees every river"


@pytest.fixture(scope="module")
def tokenizer():
    return Word().train(iter(generated_sentences(100)))


def build(family, tokenizer, **table):
    settings = {"context": 32, "width": 16, "heads": 2, "layers": 2, "init_std": 0.3, **table}
    model = read_settings(FAMILIES.get(family).part, settings)
    return model.build(vocabulary=tokenizer.size, seed=0).eval()


GREEDY = Greedy()


def written(model, tokenizer, strategy=GREEDY, *, new=12):
    row = prompt_row(model, tokenizer, PROMPT)
    generated = continue_row(model, tokenizer, row, strategy=strategy, max_new_tokens=new, seed=3)
    return row._replace(ids=(*row.ids, *generated.ids)), generated


@pytest.mark.parametrize("strategy", [Greedy(), Sampling(top_k=5), BeamSearch(width=3)])
@pytest.mark.parametrize("family", ["decoder", "encoder-decoder"])
def test_what_is_written_is_what_generate_writes(family, strategy, tokenizer):
    model = build(family, tokenizer)
    row, generated = written(model, tokenizer, strategy)
    [text] = generate_texts(
        model, tokenizer, [PROMPT], strategy=strategy, max_new_tokens=12, seed=3
    )
    given = () if row.source else row.ids[: row.given]
    decoded = tokenizer.decode([*given, *generated.ids]).removeprefix(tokenizer.decode(given))
    assert text.endswith(decoded)
    assert len(generated.ids) > 2


@pytest.mark.parametrize("family", ["decoder", "encoder-decoder"])
def test_probabilities_are_the_models_own(family, tokenizer):
    model, strategy = build(family, tokenizer), Sampling(temperature=0.7, top_k=4)
    row, _ = written(model, tokenizer, strategy)
    tokens, following = token_probabilities(
        model, tokenizer, row, strategy=strategy, alternatives=6
    )
    source = None if row.source is None else torch.tensor([row.source])
    valid = None if source is None else torch.ones_like(source, dtype=torch.bool)
    inputs = ModelInputs(torch.tensor([row.ids]), source=source, source_valid=valid)
    with torch.inference_mode():
        p = torch.softmax(model.logits(inputs)[0].double(), dim=-1)
    assert [one.id for one in tokens] == list(row.ids[1:])
    for n, token in enumerate(tokens):
        assert token.probability == pytest.approx(float(p[n, token.id]), rel=1e-4)
        assert token.rank == 1 + int((p[n] > p[n, token.id]).sum())
        assert len(token.alternatives) == 6
        for one in token.alternatives:
            assert one.probability == pytest.approx(float(p[n, one.id]), rel=1e-4)
        assert [one.probability for one in token.alternatives] == sorted(
            (one.probability for one in token.alternatives), reverse=True
        )
        assert sum(one.drawn for one in token.alternatives[:4]) == pytest.approx(1)
        assert token.alternatives[4].drawn == 0
    drawn = [one.drawn for one in tokens[row.given - 1 :]]
    assert all(0 < one <= 1 for one in drawn)
    assert following[0].probability == pytest.approx(float(p[-1, following[0].id]), rel=1e-4)
    never = {tokenizer.require(role) for role in ("start", "pad", "mask")}
    assert not never & {one.id for token in tokens for one in token.alternatives}


def test_a_token_without_its_context_has_no_probability(tokenizer):
    model = build("decoder", tokenizer, context=8)
    row = prompt_row(model, tokenizer, " ".join([PROMPT] * 3))
    tokens, _ = token_probabilities(model, tokenizer, row, strategy=Greedy(), alternatives=2)
    known = [one.probability is not None for one in tokens]
    assert known == [False] * (len(tokens) - 3) + [True] * 3
    assert row_losses(model, row).isfinite().tolist() == known


def test_losses_are_those_of_inspect(tokenizer):
    model = build("decoder", tokenizer)
    row = prompt_row(model, tokenizer, PROMPT)
    inspected = [one.loss for one in inspect_text(model, tokenizer, PROMPT).losses]
    assert row_losses(model, row).tolist() == pytest.approx(inspected[:-1], rel=1e-4)
    tokens, _ = token_probabilities(model, tokenizer, row, strategy=Greedy(), alternatives=1)
    assert [-math.log(one.probability) for one in tokens] == pytest.approx(inspected[:-1], rel=1e-4)


@torch.inference_mode()
def test_the_last_layer_of_the_lens_is_the_model(tokenizer):
    model = build("decoder", tokenizer)
    row, _ = written(model, tokenizer)
    stop = tokenizer.require("stop")
    for ids in (row.ids, (*row.ids, stop)):
        whole = row._replace(ids=ids)
        lens = logit_lens(model, tokenizer, whole, positions=5)
        tokens, following = token_probabilities(
            model, tokenizer, whole, strategy=Greedy(), alternatives=1
        )
        assert lens.layers == ("embedding", "block 0", "block 1")
        ends = int(ids[-1] == stop)
        assert lens.first == len(ids) - 5 - ends
        predicted = tokens[-5 + 1 - ends :] if not ends else tokens[-5:]
        for cell, token in zip(lens.cells[-1], predicted, strict=False):
            assert cell.next_probability == pytest.approx(token.probability, rel=1e-4)
            assert cell.next_rank == token.rank
            assert cell.top == token.alternatives[0].label
            assert cell.top_probability == pytest.approx(token.alternatives[0].probability)
        if not ends:
            assert lens.cells[-1][-1].next_probability is None
            assert lens.cells[-1][-1].top == following[0].label
        assert len(lens.tokens) == len(lens.following) == 5
    length = len(row.ids)
    device = torch.device("cpu")
    positions, _ = model.own_positions_and_mask(None, length=length, device=device)
    states = model.embedding(torch.tensor([row.ids]), positions.last(length))
    logits = model.head(model.stack.norm(states))[0, -1].softmax(dim=-1)
    first = logit_lens(model, tokenizer, row, positions=1).cells[0][0]
    assert first.top_probability == pytest.approx(float(logits.max()), rel=1e-3)


def test_the_effect_of_a_head_is_the_difference_of_losses(tokenizer):
    model = build("decoder", tokenizer)
    row, _ = written(model, tokenizer)
    found = head_effects(model, row)
    assert (found.loss, found.n) == mean_row_loss(model, row)
    assert {layer: len(losses) for layer, losses in found.without.items()} == {
        "block.0.attention": 2,
        "block.1.attention": 2,
    }
    head = Head("block.1.attention", 0)
    with ablate_heads(model, [head]):
        loss, _ = mean_row_loss(model, row)
    assert found.without[head.layer][0] == loss != found.loss
    beside = head_effects(model, row, off=[head])
    assert beside.loss == loss == beside.without[head.layer][0]
    assert mean_row_loss(model, row)[0] == found.loss


def test_pieces_make_up_the_text():
    texts = ["naïve café — 日本語 🙂 done", "two\nlines  here", ""]
    for settings in (Bpe(vocabulary=300), Bpe(vocabulary=300, bytes=False), Word()):
        tokenizer = settings.train(iter([*generated_sentences(50), *texts]))
        for text in texts:
            ids = [tokenizer.require("start"), *tokenizer.encode(text)]
            pieces = text_pieces(tokenizer, ids)
            assert "".join(pieces) == tokenizer.decode(ids)
            assert len(pieces) == len(ids)
            assert not any("\ufffd" in one for one in pieces)
    assert DecodedRow((1, 2), 2).source is None
