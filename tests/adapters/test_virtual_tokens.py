"""Prompts and prefixes: where they stand, who sees them, and that hidden they are not there."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.bodies import (
    LIKE_BERT,
    LIKE_LLAMA,
    VOCABULARY,
    batch_of,
    body,
    ids_of,
    labelled,
    shaken,
    told,
)

from regard.adapters.prefix_tuning import PrefixTuning
from regard.adapters.prompt_tuning import PromptTuning
from regard.attention.kinds import ATTENTION
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.positions import POSITIONS
from regard.audits.audit import audit
from regard.core.errors import UserError
from regard.generation.generate import BeamSearch, Greedy, generate
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.recorder import AttentionRecorder
from regard.models.blocks.virtual_tokens import hidden_virtual
from regard.models.task_models.patch_model import mixed_batch
from regard.models.task_models.task_model import TaskModel

KEYLESS = ("linear", "synthesizer-dense", "synthesizer-random")
LENGTH = 4
BOTH = pytest.mark.parametrize(
    "adapter", [PromptTuning(length=LENGTH), PrefixTuning(length=LENGTH)]
)
FAMILIES = pytest.mark.parametrize("name", ["decoder", "encoder", "encoder-decoder"])


def adapted(adapter, name: str = "decoder", **table):
    model = body(name, **table).double()
    adapter.apply(model, seed=0)
    return shaken(model)


def test_a_prompt_is_tokens_that_the_vocabulary_does_not_have():
    """The oracle: a model with more tokens, whose vectors are the prompt, reads them as tokens."""
    for name, table in (
        ("decoder", {}),
        ("encoder", {}),
        ("encoder", LIKE_BERT),
        ("decoder", LIKE_LLAMA),
        *(("decoder", {"positions": one}) for one in POSITIONS.names()),
        ("decoder", {"positions": {"kind": "learned", "combine": "concatenate"}, "tied": False}),
        *(("encoder", {"attention": one}) for one in KEYLESS),
    ):
        model = adapted(PromptTuning(length=LENGTH), name, **table)
        prompt, table_of_tokens = model.prompt, model.embedding.tokens
        whole = torch.cat((table_of_tokens.weight, prompt))
        plain = body(name, **table).double()
        plain.embedding.tokens = torch.nn.Embedding.from_pretrained(whole)
        ids = ids_of()
        new = torch.arange(VOCABULARY, VOCABULARY + LENGTH).expand(len(ids), -1)
        expected = plain.encode(torch.cat((new, ids), dim=1))[:, LENGTH:]
        assert torch.allclose(model.encode(ids), expected, atol=1e-12), (name, table)


@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "relative"])
@pytest.mark.parametrize("grouped", [0, 2])
def test_a_prefix_is_more_keys_and_values_written_out(positions, grouped):
    model = adapted(
        PrefixTuning(length=LENGTH), positions=positions, key_value_heads=grouped, layers=1
    )
    attention = model.stack.blocks[0].attention
    assert isinstance(attention, MultiHeadAttention)
    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    q, (k, v) = attention._heads(attention.query(x)), attention.keys_and_values(x)
    standing = torch.arange(LENGTH, LENGTH + 5)[None]
    bias = torch.zeros(5, LENGTH + 5)
    if attention.relation is not None:
        q, k = (attention.relation.rotate(one, standing) for one in (q, k))
        between = attention.relation.bias(standing, standing)
        bias = bias if between is None else torch.nn.functional.pad(between[0], (LENGTH, 0))
    heads = []
    for head in range(4):
        one = head * k.shape[1] // 4
        of_prefix = attention.prefix.unflatten(-1, (-1, 4))[:, :, one]
        keys, values = (torch.cat((of_prefix[n], (k, v)[n][0, one])) for n in (0, 1))
        scores = q[0, head] @ keys.T / 2.0 + (bias[head] if bias.ndim == 3 else bias)
        seen = torch.ones(5, LENGTH + 5).tril(LENGTH).bool()
        heads.append(scores.masked_fill(~seen, -torch.inf).softmax(dim=-1) @ values)
    expected = attention.out(torch.cat(heads, dim=-1))
    positions = model.front.positions(model.standing(ids_of(1, 5), None)[0])
    found = attention(x, mask=model.standing(ids_of(1, 5), None)[1], positions=positions).out[0]
    assert torch.allclose(found, expected, atol=1e-12)


@BOTH
@FAMILIES
@pytest.mark.parametrize("table", [{}, LIKE_LLAMA, {"attention": "group"}])
def test_hidden_they_change_nothing(adapter, name, table):
    """Their columns are there and masked: sums of other lengths may round in another way."""
    plain, model = body(name, **table), body(name, **table)
    adapter.apply(model, seed=0)
    shaken(model)
    plain, model = plain.double(), model.double()
    batch = batch_of()
    padded = replace(batch, valid=torch.arange(9) < torch.tensor([[9], [6], [3]]))
    for rows in (batch, padded):
        expected = told(plain, rows)
        assert not torch.allclose(told(model, rows), expected, atol=1e-3)
        with hidden_virtual(model):
            apart = (told(model, rows) - expected)[rows.valid].abs().max()
            assert apart <= 1e-12 * expected.abs().max()
        assert not torch.allclose(told(model, rows), expected, atol=1e-3)


@BOTH
@pytest.mark.parametrize("positions", POSITIONS.names())
@pytest.mark.parametrize("table", [{}, {"key_value_heads": 2}, {"attention": "group"}])
def test_cached_is_uncached_and_padding_on_the_left_moves_nothing(adapter, positions, table):
    model = adapted(adapter, positions=positions, **table)
    ids, gaps = ids_of(3, 9), (0, 2, 5)
    valid = torch.arange(9) >= torch.tensor(gaps)[:, None]
    whole = model.logits(ids, valid=valid)
    cache, pieces = model.new_cache(3), []
    for begin, end in ((0, 6), (6, 7), (7, 9)):
        piece = model.after(ids[:, begin:end], valid=valid[:, :end], cache=cache)
        pieces.append(model.head(piece))
    cached = torch.cat(pieces, dim=1)
    assert torch.allclose(cached[valid], whole[valid], atol=1e-12)
    for row, gap in enumerate(gaps):
        alone = model.logits(ids[row : row + 1, gap:])[0]
        assert torch.allclose(whole[row, gap:], alone, atol=1e-12)
        right = torch.cat((ids[row : row + 1, gap:], ids[row : row + 1, :gap]), dim=1)
        seen = torch.arange(9)[None] < 9 - gap
        assert torch.allclose(model.logits(right, valid=seen)[0, : 9 - gap], alone, atol=1e-12)


@pytest.mark.parametrize("attention", KEYLESS)
def test_a_prompt_is_cached_by_kinds_that_keep_no_keys(attention):
    model, ids = adapted(PromptTuning(length=LENGTH), attention=attention), ids_of()
    valid = torch.ones_like(ids, dtype=torch.bool)
    cache = model.new_cache(3)
    pieces = [
        model.after(ids[:, begin:end], valid=valid[:, :end], cache=cache)
        for begin, end in ((0, 4), (4, 5), (5, 9))
    ]
    assert torch.allclose(torch.cat(pieces, dim=1), model.encode(ids), atol=1e-12)


@BOTH
def test_padding_of_an_encoder_is_never_seen(adapter):
    model = adapted(adapter, "encoder")
    ids, lengths = ids_of(), (9, 5, 2)
    valid = torch.arange(9) < torch.tensor(lengths)[:, None]
    whole = model.logits(ids, valid=valid)
    flipped = model.logits(ids.flip(1), valid=valid.flip(1))
    for row, length in enumerate(lengths):
        alone = model.logits(ids[row : row + 1, :length])[0]
        assert torch.allclose(whole[row, :length], alone, atol=1e-12)
        backwards = model.logits(ids[row : row + 1, :length].flip(1))[0]
        assert torch.allclose(flipped[row, 9 - length :], backwards, atol=1e-12)


@BOTH
@pytest.mark.parametrize("name", ["decoder", "encoder"])
def test_documents_in_one_row_stay_apart_and_all_see_them(adapter, name):
    model = adapted(adapter, name, across_documents=False, positions="none")
    ids = ids_of(1, 9)
    batch = replace(batch_of(1), ids=ids, segments=torch.tensor([[0] * 4 + [1] * 5]))
    together = model.read(batch)[0]
    assert torch.allclose(together[:4], model.encode(ids[:, :4])[0], atol=1e-12)
    assert torch.allclose(together[4:], model.encode(ids[:, 4:])[0], atol=1e-12)


@BOTH
@pytest.mark.parametrize("by", ["segments", "modality"])
def test_groups_stay_apart_and_all_see_them(adapter, by):
    table = {"attention": {"kind": "group", "by": by}, "positions": "none"}
    model = adapted(adapter, "encoder", **table)
    batch = replace(batch_of(1), segments=torch.tensor([[0] * 4 + [1] * 5]))
    batch = replace(batch, modalities=batch.segments)
    other = replace(batch, ids=torch.cat((batch.ids[:, :4], ids_of(1, 5, seed=9)), dim=1))
    read, changed = model.read(batch), model.read(other)
    assert torch.equal(read[:, :4], changed[:, :4])
    new = [one for one in model.parameters() if one.requires_grad]
    for group in (read[:, :4], read[:, 4:]):
        # Cubes, because what a norm gives sums to 0 whatever it was given.
        gradients = torch.autograd.grad((group**3).sum(), new, retain_graph=True)
        assert all(bool(gradient.any()) for gradient in gradients)


@BOTH
def test_an_encoder_decoder_writes_token_by_token_what_it_reads_whole(adapter):
    model, batch = adapted(adapter, "encoder-decoder", positions="learned"), batch_of()
    whole = told(model, batch)
    cache = model.new_cache_for(batch.source, batch.source_valid)
    pieces = [
        model.step(batch.ids[:, begin:end], valid=batch.valid[:, :end], cache=cache)
        for begin, end in ((0, 4), (4, 5), (5, 9))
    ]
    assert torch.allclose(torch.cat(pieces, dim=1), whole, atol=1e-12)
    cache.reorder(torch.tensor([2, 0]))
    short = batch.ids[[2, 0]]
    more = model.step(short[:, :1], valid=torch.ones(2, 10, dtype=torch.bool), cache=cache)
    longer = torch.cat((short, short[:, :1]), dim=1)
    expected = model.logits(
        longer, source=batch.source[[2, 0]], source_valid=batch.source_valid[[2, 0]]
    )
    assert torch.allclose(more[:, 0], expected[:, -1], atol=1e-12)


def test_the_source_is_padded_on_the_right_alone_or_in_a_batch():
    for adapter in (PromptTuning(length=LENGTH), PrefixTuning(length=LENGTH)):
        model, batch = adapted(adapter, "encoder-decoder"), batch_of()
        alone = model.logits(
            batch.ids[2:], source=batch.source[2:, :5], source_valid=batch.source_valid[2:, :5]
        )
        assert torch.allclose(told(model, batch)[2:], alone, atol=1e-12)


@BOTH
@pytest.mark.parametrize("table", [{}, LIKE_LLAMA])
def test_beams_find_what_scoring_whole_rows_finds(adapter, table):
    model = adapted(adapter, **table)
    prompts = [[1, 2, 3, 4], [5], [6, 7]]
    for strategy in (Greedy(), BeamSearch(width=3)):
        found = generate(model, prompts, strategy=strategy, max_new=6, stop=None, pad=0)
        for prompt, one in zip(prompts, found, strict=True):
            row = torch.tensor([[*prompt, *one.ids]])
            shares = model.logits(row).log_softmax(dim=-1)[0, len(prompt) - 1 : -1]
            scored = shares.gather(1, row[0, len(prompt) :, None]).sum()
            assert scored.item() == pytest.approx(one.logprob, abs=1e-9)
            if isinstance(strategy, Greedy):
                assert shares.argmax(dim=1).tolist() == list(one.ids)


@BOTH
@FAMILIES
def test_recorded_weights_are_those_between_tokens(adapter, name):
    model, batch = adapted(adapter, name), replace(batch_of(), labels=None)
    recorder = AttentionRecorder()
    model.losses(batch, recorder=recorder)
    assert recorder.weights
    for where, weights in recorder.weights.items():
        queries = 7 if where.startswith("encoder.") else 9
        keys = 7 if where.endswith("cross_attention") or queries == 7 else 9
        assert weights.shape == (3, 4, queries, keys), where
        prompted_decoder = isinstance(adapter, PromptTuning) and where.startswith("decoder.")
        missing = 1 - weights.sum(dim=-1)
        if prompted_decoder and where.endswith(".attention"):
            assert torch.allclose(missing, torch.zeros_like(missing), atol=1e-12)
        else:
            assert bool((missing > 1e-6).all()), where


@BOTH
def test_patches_keep_their_places_behind_virtual_ones(adapter):
    table = {"patch_values": 3, "positions": "learned"}
    model, plain = adapted(adapter, "encoder", **table), body("encoder", **table).double()
    ids = ids_of()
    expected = plain.told_of_mixed(ids)
    assert not torch.allclose(model.told_of_mixed(ids), expected, atol=1e-3)
    with hidden_virtual(model):
        assert torch.allclose(model.told_of_mixed(ids), expected, atol=1e-12)
    asked = []
    model.embedding.positions.register_forward_hook(lambda _, given, __: asked.append(given[0]))
    batch = mixed_batch(ids, None, patch_values=3)
    model.through(batch, mask=model.standing(ids, None)[1])
    assert asked[0][0].tolist() == [4, 5, 6, 7, 8, 20, 21, 22, 23]


@BOTH
def test_a_head_reads_tokens_alone(adapter):
    model = labelled(**LIKE_BERT)
    adapter.apply(model, seed=0)
    assert isinstance(model, TaskModel)
    assert model.vectors(batch_of()).shape == (3, 9, 16)


@BOTH
def test_a_row_pushed_beyond_the_context_is_refused(adapter):
    model = adapted(adapter)
    assert model.context == 20
    assert model.logits(ids_of(1, 20)).shape[1] == 20
    with pytest.raises(UserError, match="a row of 21 tokens behind 4 virtual places"):
        model.logits(ids_of(1, 21))
    reading = adapted(adapter, "encoder-decoder")
    batch = batch_of()
    long = ids_of(3, 21)
    with pytest.raises(UserError, match="at most 20 tokens"):
        reading.logits(batch.ids, source=long, source_valid=torch.ones_like(long).bool())


@BOTH
@FAMILIES
def test_they_pass_the_audit(adapter, name):
    model = body(name, context=11)  # the longest rows that are tried have to leave them room
    adapter.apply(model, seed=0)
    found = audit(model, mask=model.sees)
    assert not found.leaks
    assert not found.findings


def test_a_prompt_starts_as_tokens_of_the_vocabulary_or_spreads_as_they_do():
    model = body("decoder")
    PromptTuning(length=5).apply(model, seed=0)
    table = model.embedding.tokens.weight
    assert all(any(torch.equal(row, token) for token in table) for row in model.prompt)
    model = body("decoder")
    PromptTuning(length=20, start="random").apply(model, seed=0)
    assert (model.prompt.std() / table.std()).item() == pytest.approx(1.0, abs=0.2)


def test_a_prefix_starts_as_keys_and_values_of_tokens():
    """Behind a fresh prefix a row is read nearly as behind those tokens themselves."""
    model = body("decoder", positions="none").double()
    plain = body("decoder", positions="none").double()
    tokens = []
    handle = model.embedding.tokens.register_forward_hook(
        lambda _, given, __: tokens.append(given[0])
    )
    PrefixTuning(length=5).apply(model, seed=0)
    handle.remove()
    ids = ids_of()
    behind = torch.cat((tokens[0].expand(3, -1), ids), dim=1)
    assert torch.allclose(model.logits(ids), plain.logits(behind)[:, 5:], atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    virtual=st.integers(1, 5),
    gaps=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    kind=st.sampled_from([one for one in ATTENTION.names() if one not in KEYLESS]),
    is_prompt=st.booleans(),
)
def test_for_any_length_and_padding_a_row_is_read_as_alone(virtual, gaps, kind, is_prompt):
    if ATTENTION.get(kind).properties["broken"]:
        return  # broken kinds see padding, with or without virtual places
    adapter = PromptTuning(length=virtual) if is_prompt else PrefixTuning(length=virtual)
    model = adapted(adapter, attention=kind)
    ids = ids_of(len(gaps), 7)
    valid = torch.arange(7) >= torch.tensor(gaps)[:, None]
    whole = model.logits(ids, valid=valid)
    assert isinstance(model, SequenceModel)
    for row, gap in enumerate(gaps):
        alone = model.logits(ids[row : row + 1, gap:])[0]
        assert torch.allclose(whole[row, gap:], alone, atol=1e-10)
