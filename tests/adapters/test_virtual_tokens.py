"""Prompts and prefixes: positions, masks, caching, initial values; masked they have no effect."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.small_models import (
    LIKE_BERT,
    LIKE_LLAMA,
    VOCABULARY,
    batch_of,
    body,
    classifier,
    ids_of,
    outputs,
    perturbed,
)

from regard.adapters.prefix_tuning import PrefixTuning
from regard.adapters.prompt_tuning import PromptTuning
from regard.attention.kinds import ATTENTION
from regard.attention.masks.mask import bidirectional, causal
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.positions import POSITIONS
from regard.attention.token_positions import TokenPositions
from regard.audits.audit import audit
from regard.core.errors import UserError
from regard.generation.generate import BeamSearch, Greedy, generate
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.blocks.attention_recorder import AttentionRecorder
from regard.models.blocks.virtual_tokens import masked_virtual_tokens
from regard.models.inputs import ModelInputs
from regard.models.model import token_losses
from regard.runs.models.model_subject import mixed_inputs, model_subject

KEYLESS = ("linear", "synthesizer-dense", "synthesizer-random")
LENGTH = 4
BOTH_ADAPTERS = pytest.mark.parametrize(
    "adapter", [PromptTuning(length=LENGTH), PrefixTuning(length=LENGTH)]
)
FAMILIES = pytest.mark.parametrize("name", ["decoder", "encoder", "encoder-decoder"])


def adapted(adapter, name: str = "decoder", **table):
    model = body(name, **table).double()
    adapter.apply(model, seed=0)
    return perturbed(model)


def test_a_prompt_equals_extra_tokens_of_the_vocabulary():
    """The oracle: a model with more tokens, whose embeddings are the prompt."""
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
        prompt, token_table = model.prompt, model.embedding.tokens
        extended = torch.cat((token_table.weight, prompt))
        plain = body(name, **table).double()
        plain.embedding.tokens = torch.nn.Embedding.from_pretrained(extended)
        ids = ids_of()
        new = torch.arange(VOCABULARY, VOCABULARY + LENGTH).expand(len(ids), -1)
        expected = plain.hidden_states(ModelInputs(torch.cat((new, ids), dim=1)))[:, LENGTH:]
        assert torch.allclose(model.hidden_states(ModelInputs(ids)), expected, atol=1e-12), (
            name,
            table,
        )


@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "relative"])
@pytest.mark.parametrize("grouped", [0, 2])
def test_a_prefix_equals_concatenated_keys_and_values(positions, grouped):
    model = adapted(
        PrefixTuning(length=LENGTH), positions=positions, key_value_heads=grouped, layers=1
    )
    attention = model.stack.blocks[0].attention
    assert isinstance(attention, MultiHeadAttention)
    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    q, (k, v) = attention.shape.split_heads(attention.query(x)), attention.project_keys_values(x)
    position_ids = torch.arange(LENGTH, LENGTH + 5)[None]
    bias = torch.zeros(5, LENGTH + 5)
    if attention.relative_position is not None:
        q, k = (attention.relative_position.rotate(x, position_ids) for x in (q, k))
        between = attention.relative_position.bias(position_ids, position_ids)
        bias = bias if between is None else torch.nn.functional.pad(between[0], (LENGTH, 0))
    heads = []
    for head in range(4):
        one = head * k.shape[1] // 4
        prefix = attention.prefix.unflatten(-1, (-1, 4))[:, :, one]
        keys, values = (torch.cat((prefix[n], (k, v)[n][0, one])) for n in (0, 1))
        scores = q[0, head] @ keys.T / 2.0 + (bias[head] if bias.ndim == 3 else bias)
        allowed = torch.ones(5, LENGTH + 5).tril(LENGTH).bool()
        heads.append(scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1) @ values)
    expected = attention.out(torch.cat(heads, dim=-1))
    positions = model.virtual_prefix.positions(TokenPositions.of_row(5))
    mask = causal() if model.visibility == "causal" else bidirectional()
    out = attention(x, mask=mask, positions=positions).out[0]
    assert torch.allclose(out, expected, atol=1e-12)


@BOTH_ADAPTERS
@FAMILIES
@pytest.mark.parametrize("table", [{}, LIKE_LLAMA, {"attention": "group"}])
def test_masked_virtual_tokens_change_nothing(adapter, name, table):
    """Their columns are there and masked: sums of other lengths may round differently."""
    plain, model = body(name, **table), body(name, **table)
    adapter.apply(model, seed=0)
    perturbed(model)
    plain, model = plain.double(), model.double()
    batch = batch_of()
    padded = replace(batch, valid=torch.arange(9) < torch.tensor([[9], [6], [3]]))
    for rows in (batch, padded):
        expected = outputs(plain, rows)
        assert not torch.allclose(outputs(model, rows), expected, atol=1e-3)
        with masked_virtual_tokens(model):
            difference = (outputs(model, rows) - expected)[rows.valid].abs().max()
            assert difference <= 1e-12 * expected.abs().max()
        assert not torch.allclose(outputs(model, rows), expected, atol=1e-3)


@BOTH_ADAPTERS
@pytest.mark.parametrize("positions", POSITIONS.names())
@pytest.mark.parametrize("table", [{}, {"key_value_heads": 2}, {"attention": "group"}])
def test_cached_equals_uncached_with_left_or_right_padding(adapter, positions, table):
    model = adapted(adapter, positions=positions, **table)
    ids, gaps = ids_of(3, 9), (0, 2, 5)
    valid = torch.arange(9) >= torch.tensor(gaps)[:, None]
    batched = model.logits(ModelInputs(ids, valid=valid))
    cache, pieces = model.new_cache(3), []
    for begin, end in ((0, 6), (6, 7), (7, 9)):
        pieces.append(model.logits(ModelInputs(ids[:, begin:end], valid[:, :end]), cache=cache))
    cached = torch.cat(pieces, dim=1)
    assert torch.allclose(cached[valid], batched[valid], atol=1e-12)
    for row, gap in enumerate(gaps):
        alone = model.logits(ModelInputs(ids[row : row + 1, gap:]))[0]
        assert torch.allclose(batched[row, gap:], alone, atol=1e-12)
        right = torch.cat((ids[row : row + 1, gap:], ids[row : row + 1, :gap]), dim=1)
        seen = torch.arange(9)[None] < 9 - gap
        assert torch.allclose(
            model.logits(ModelInputs(right, valid=seen))[0, : 9 - gap], alone, atol=1e-12
        )


@pytest.mark.parametrize("attention", KEYLESS)
def test_a_prompt_is_cached_by_kinds_without_keys(attention):
    model, ids = adapted(PromptTuning(length=LENGTH), attention=attention), ids_of()
    valid = torch.ones_like(ids, dtype=torch.bool)
    cache = model.new_cache(3)
    pieces = [
        model.hidden_states(ModelInputs(ids[:, begin:end], valid[:, :end]), cache=cache)
        for begin, end in ((0, 4), (4, 5), (5, 9))
    ]
    assert torch.allclose(
        torch.cat(pieces, dim=1), model.hidden_states(ModelInputs(ids)), atol=1e-12
    )


@BOTH_ADAPTERS
def test_padding_of_an_encoder_has_no_influence(adapter):
    model = adapted(adapter, "encoder")
    ids, lengths = ids_of(), (9, 5, 2)
    valid = torch.arange(9) < torch.tensor(lengths)[:, None]
    batched = model.logits(ModelInputs(ids, valid=valid))
    flipped = model.logits(ModelInputs(ids.flip(1), valid=valid.flip(1)))
    for row, length in enumerate(lengths):
        alone = model.logits(ModelInputs(ids[row : row + 1, :length]))[0]
        assert torch.allclose(batched[row, :length], alone, atol=1e-12)
        backwards = model.logits(ModelInputs(ids[row : row + 1, :length].flip(1)))[0]
        assert torch.allclose(flipped[row, 9 - length :], backwards, atol=1e-12)


@BOTH_ADAPTERS
@pytest.mark.parametrize("name", ["decoder", "encoder"])
def test_packed_documents_stay_apart_and_attend_to_virtual_tokens(adapter, name):
    model = adapted(adapter, name, across_documents=False, positions="none")
    ids = ids_of(1, 9)
    batch = replace(batch_of(1), ids=ids, segments=torch.tensor([[0] * 4 + [1] * 5]))
    together = model.hidden_states(ModelInputs.of_batch(batch))[0]
    assert torch.allclose(together[:4], model.hidden_states(ModelInputs(ids[:, :4]))[0], atol=1e-12)
    assert torch.allclose(together[4:], model.hidden_states(ModelInputs(ids[:, 4:]))[0], atol=1e-12)


@BOTH_ADAPTERS
@pytest.mark.parametrize("by", ["segments", "modality"])
def test_groups_stay_apart_and_attend_to_virtual_tokens(adapter, by):
    table = {"attention": {"kind": "group", "by": by}, "positions": "none"}
    model = adapted(adapter, "encoder", **table)
    batch = replace(batch_of(1), segments=torch.tensor([[0] * 4 + [1] * 5]))
    batch = replace(batch, modalities=batch.segments)
    other = replace(batch, ids=torch.cat((batch.ids[:, :4], ids_of(1, 5, seed=9)), dim=1))
    states, changed = (
        model.hidden_states(ModelInputs.of_batch(batch)),
        model.hidden_states(ModelInputs.of_batch(other)),
    )
    assert torch.equal(states[:, :4], changed[:, :4])
    new = [one for one in model.parameters() if one.requires_grad]
    for group in (states[:, :4], states[:, 4:]):
        # Cubes, because the outputs of a norm always sum to 0.
        gradients = torch.autograd.grad((group**3).sum(), new, retain_graph=True)
        assert all(bool(gradient.any()) for gradient in gradients)


@BOTH_ADAPTERS
def test_cached_encoder_decoder_equals_the_full_forward(adapter):
    model, batch = adapted(adapter, "encoder-decoder", positions="learned"), batch_of()
    expected = outputs(model, batch)
    cache = model.encode(batch.source, batch.source_valid)
    pieces = [
        model.logits(ModelInputs(batch.ids[:, begin:end], batch.valid[:, :end]), cache=cache)
        for begin, end in ((0, 4), (4, 5), (5, 9))
    ]
    assert torch.allclose(torch.cat(pieces, dim=1), expected, atol=1e-12)
    cache.reorder(torch.tensor([2, 0]))
    short = batch.ids[[2, 0]]
    more = model.logits(ModelInputs(short[:, :1], torch.ones(2, 10, dtype=torch.bool)), cache=cache)
    longer = torch.cat((short, short[:, :1]), dim=1)
    expected = model.logits(
        ModelInputs(longer, source=batch.source[[2, 0]], source_valid=batch.source_valid[[2, 0]])
    )
    assert torch.allclose(more[:, 0], expected[:, -1], atol=1e-12)


def test_source_padding_has_no_influence():
    for adapter in (PromptTuning(length=LENGTH), PrefixTuning(length=LENGTH)):
        model, batch = adapted(adapter, "encoder-decoder"), batch_of()
        alone = model.logits(
            ModelInputs(
                batch.ids[2:], source=batch.source[2:, :5], source_valid=batch.source_valid[2:, :5]
            )
        )
        assert torch.allclose(outputs(model, batch)[2:], alone, atol=1e-12)


@BOTH_ADAPTERS
@pytest.mark.parametrize("table", [{}, LIKE_LLAMA])
def test_generated_logprobs_equal_those_of_whole_rows(adapter, table):
    model = adapted(adapter, **table)
    prompts = [[1, 2, 3, 4], [5], [6, 7]]
    for strategy in (Greedy(), BeamSearch(width=3)):
        generated = generate(model, prompts, strategy=strategy, max_new_tokens=6, stop=None, pad=0)
        for prompt, one in zip(prompts, generated, strict=True):
            row = torch.tensor([[*prompt, *one.ids]])
            logprobs = model.logits(ModelInputs(row)).log_softmax(dim=-1)[0, len(prompt) - 1 : -1]
            expected = logprobs.gather(1, row[0, len(prompt) :, None]).sum()
            assert expected.item() == pytest.approx(one.logprob, abs=1e-9)
            if isinstance(strategy, Greedy):
                assert logprobs.argmax(dim=1).tolist() == list(one.ids)


@BOTH_ADAPTERS
@FAMILIES
def test_recorded_weights_are_those_between_tokens(adapter, name):
    model, batch = adapted(adapter, name), replace(batch_of(), labels=None)
    recorder = AttentionRecorder()
    token_losses(model, batch, recorder=recorder)
    assert recorder.weights
    for path, weights in recorder.weights.items():
        queries = 7 if path.startswith("encoder.") else 9
        keys = 7 if path.endswith("cross_attention") or queries == 7 else 9
        assert weights.shape == (3, 4, queries, keys), path
        prompted_decoder = isinstance(adapter, PromptTuning) and path.startswith("decoder.")
        missing = 1 - weights.sum(dim=-1)
        if prompted_decoder and path.endswith(".attention"):
            assert torch.allclose(missing, torch.zeros_like(missing), atol=1e-12)
        else:
            assert bool((missing > 1e-6).all()), path


@BOTH_ADAPTERS
def test_patches_keep_their_positions_after_virtual_tokens(adapter):
    table = {"patch_dim": 3, "positions": "learned"}
    model, plain = adapted(adapter, "encoder", **table), body("encoder", **table).double()
    ids = ids_of()
    inputs = mixed_inputs(ids, None, patch_dim=3)
    expected = plain.logits(inputs)
    assert not torch.allclose(model.logits(inputs), expected, atol=1e-3)
    with masked_virtual_tokens(model):
        assert torch.allclose(model.logits(inputs), expected, atol=1e-12)
    position_ids = []
    model.embedding.positions.register_forward_hook(
        lambda _, inputs, __: position_ids.append(inputs[0])
    )
    model.hidden_states(inputs)
    assert position_ids[0][0].tolist() == [4, 5, 6, 7, 8, 20, 21, 22, 23]


@BOTH_ADAPTERS
def test_a_task_head_gets_tokens_alone(adapter):
    model = classifier(**LIKE_BERT)
    adapter.apply(model, seed=0)
    assert model.hidden_states(batch_of()).shape == (3, 9, 16)


@BOTH_ADAPTERS
def test_a_row_beyond_the_context_is_refused(adapter):
    model = adapted(adapter)
    assert model.context == 20
    assert model.logits(ModelInputs(ids_of(1, 20))).shape[1] == 20
    with pytest.raises(UserError, match=r"21 tokens after 4 virtual .* = 24"):
        model.logits(ModelInputs(ids_of(1, 21)))
    seq2seq = adapted(adapter, "encoder-decoder")
    batch = batch_of()
    long = ids_of(3, 21)
    with pytest.raises(UserError, match="at most 20 tokens"):
        seq2seq.logits(
            ModelInputs(batch.ids, source=long, source_valid=torch.ones_like(long).bool())
        )


@BOTH_ADAPTERS
@pytest.mark.parametrize(
    "name", ["decoder", "encoder", pytest.param("encoder-decoder", marks=pytest.mark.long)]
)
def test_virtual_tokens_pass_the_audit(adapter, name):
    model = body(name, context=11)  # the longest rows of the audit leave context for them
    adapter.apply(model, seed=0)
    result = audit(model_subject(model))
    assert not result.leaks
    assert not result.findings


def test_a_prompt_is_initialised_from_tokens_or_with_their_std():
    model = body("decoder")
    PromptTuning(length=5).apply(model, seed=0)
    table = model.embedding.tokens.weight
    assert all(any(torch.equal(row, token) for token in table) for row in model.prompt)
    model = body("decoder")
    PromptTuning(length=20, init="random").apply(model, seed=0)
    assert (model.prompt.std() / table.std()).item() == pytest.approx(1.0, abs=0.2)


def test_a_prefix_is_initialised_from_keys_and_values_of_tokens():
    """A fresh prefix acts as those tokens before the row."""
    model = body("decoder", positions="none").double()
    plain = body("decoder", positions="none").double()
    tokens = []
    handle = model.embedding.tokens.register_forward_hook(
        lambda _, inputs, __: tokens.append(inputs[0])
    )
    PrefixTuning(length=5).apply(model, seed=0)
    handle.remove()
    ids = ids_of()
    with_tokens = torch.cat((tokens[0].expand(3, -1), ids), dim=1)
    assert torch.allclose(
        model.logits(ModelInputs(ids)), plain.logits(ModelInputs(with_tokens))[:, 5:], atol=1e-12
    )


@settings(max_examples=40, deadline=None)
@given(
    virtual=st.integers(1, 5),
    gaps=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    kind=st.sampled_from([one for one in ATTENTION.names() if one not in KEYLESS]),
    is_prompt=st.booleans(),
)
def test_for_any_length_and_padding_a_row_equals_itself_alone(virtual, gaps, kind, is_prompt):
    if ATTENTION.get(kind).properties["broken"]:
        return  # broken kinds attend to padding, with or without virtual tokens
    adapter = PromptTuning(length=virtual) if is_prompt else PrefixTuning(length=virtual)
    model = adapted(adapter, attention=kind)
    ids = ids_of(len(gaps), 7)
    valid = torch.arange(7) >= torch.tensor(gaps)[:, None]
    batched = model.logits(ModelInputs(ids, valid=valid))
    assert isinstance(model, SequenceModel)
    for row, gap in enumerate(gaps):
        alone = model.logits(ModelInputs(ids[row : row + 1, gap:]))[0]
        assert torch.allclose(batched[row, gap:], alone, atol=1e-10)
