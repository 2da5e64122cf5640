"""Every family with every attention kind, projection and position kind that it accepts."""

from __future__ import annotations

from itertools import cycle, product

import numpy as np
import pytest
import torch

from regard.attention.kinds import ATTENTION
from regard.attention.positions import POSITIONS
from regard.batch import collate
from regard.core.errors import UserError
from regard.core.ledger import total_parameters
from regard.core.settings import read_settings
from regard.data.chunks import Document
from regard.models.families import FAMILIES, Family
from regard.models.inputs import ModelInputs
from regard.models.model import token_losses
from regard.objectives import OBJECTIVES, Vocabulary

VOCABULARY = Vocabulary(size=40, start=2, stop=3, mask=6, specials=frozenset({0, 2, 3, 4, 5, 6}))
PROJECTIONS = ("separate", "shared-qk", "shared-qkv")
CHOICES = (
    {},
    {"key_value_heads": 1},
    {
        "norm": "rms",
        "activation": "swiglu",
        "biases": False,
        "tied": False,
        "norm_placement": "post",
    },
    {"activation": "relu", "mlp_width": 5, "dropout": 0.1, "attention_dropout": 0.0},
)
LIKE_BERT = {
    "segments": 2,
    "embedding_norm": True,
    "head_transform": True,
    "pooler": True,
    "norm_placement": "post",
    "norm_eps": 1e-12,
    "activation": "gelu-tanh",
}
TRANSFORMERS = tuple(name for name in FAMILIES.names() if name != "recurrent")


def settings_of(family: str, **table) -> Family:
    heads = {} if family == "recurrent" else {"heads": 2}
    return read_settings(FAMILIES.get(family).part, {"context": 10, "width": 8, **heads, **table})


def batch_for(family: str, rows: int = 3):
    objective = OBJECTIVES.get(FAMILIES.get(family).properties["objectives"][0]).part()
    generator = np.random.default_rng(0)
    documents = [
        Document(
            ids=generator.integers(7, 40, size=length),
            segments=np.zeros(length, dtype=np.int64),
        )
        for length in (11, 5, 8)[:rows]
    ]
    examples = [objective.example(one, generator, vocabulary=VOCABULARY) for one in documents]
    return collate(examples, pad_id=0, rows=tuple(range(rows)))


def check(family: str, kind: str, combinations) -> None:
    """Accepted settings train and count as their formula; refused ones raise a UserError."""
    accepted = 0
    for projections, position, choice in combinations:
        table = {"layers": 2, "projections": projections, "positions": position, **choice}
        try:
            settings = settings_of(family, attention=kind, **table)
        except UserError:
            continue
        accepted += 1
        model = settings.build(vocabulary=VOCABULARY.size, seed=0).train()
        assert sum(p.numel() for p in model.parameters()) == total_parameters(
            settings.count_parameters(40)
        ), settings
        batch = batch_for(family)
        term = model(batch)["token"]
        (term.sum / term.weight).backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)
        assert torch.isfinite(token_losses(model.eval(), batch)).all(), settings
    assert accepted


@pytest.mark.parametrize("kind", ATTENTION.names())
@pytest.mark.parametrize("family", TRANSFORMERS)
def test_kinds_projections_and_positions_train_and_count_as_their_formula(family, kind):
    # Every projection and every position kind once, each with a different choice.
    spread = zip(cycle(PROJECTIONS), POSITIONS.names(), cycle(CHOICES), strict=False)
    check(family, kind, [*spread, *((one, "none", {}) for one in PROJECTIONS)])


@pytest.mark.long
@pytest.mark.parametrize("kind", ATTENTION.names())
@pytest.mark.parametrize("family", TRANSFORMERS)
def test_every_declared_combination_trains_and_counts_as_its_formula(family, kind):
    check(family, kind, product(PROJECTIONS, POSITIONS.names(), CHOICES))


def test_an_encoder_like_bert_trains_and_counts_as_its_formula():
    check("encoder", "dot", [("separate", "learned", LIKE_BERT)])


def test_the_output_bias_is_part_of_the_loss():
    model = settings_of("encoder", **LIKE_BERT).build(vocabulary=40, seed=0).double().eval()
    batch = batch_for("encoder")
    with torch.no_grad():
        model.head.tokens.bias.normal_(generator=torch.Generator().manual_seed(0))
    logits = model.logits(ModelInputs(batch.ids, valid=batch.valid))
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), reduction="none"
    )
    valid = batch.valid.flatten()
    assert torch.allclose(token_losses(model, batch).flatten()[valid], expected[valid])
    term = model(batch)["token"]
    assert torch.allclose(term.sum, (expected * batch.weights.flatten()).sum())


@pytest.mark.parametrize("attention", [None, "additive", "dot", "linear"])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_recurrent_baseline_trains_and_counts_as_its_formula(attention, layers):
    table = {} if attention is None else {"attention": attention}
    settings = settings_of("recurrent", layers=layers, **table)
    model = settings.build(vocabulary=40, seed=0)
    assert sum(p.numel() for p in model.parameters()) == total_parameters(
        settings.count_parameters(40)
    )
    term = model(batch_for("recurrent"))["token"]
    term.sum.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name


def test_without_attention_the_recurrent_decoder_has_only_the_last_state():
    batch = batch_for("recurrent")
    torch.manual_seed(0)
    attentive = settings_of("recurrent", attention="additive").build(vocabulary=40, seed=0).double()
    without = settings_of("recurrent").build(vocabulary=40, seed=0).double()
    for model, attends in ((attentive, True), (without, False)):
        outputs = []
        for offset in (0.0, 1.0):
            cache = model.encode(batch.source, batch.source_valid)
            cache.memory = cache.memory + offset
            outputs.append(model.logits(ModelInputs(batch.ids, batch.valid), cache=cache))
        assert torch.equal(*outputs) is not attends


@pytest.mark.parametrize("family", FAMILIES.names())
def test_padding_has_no_influence(family):
    model = settings_of(family).build(vocabulary=40, seed=0).double().eval()
    together = batch_for(family)
    losses = token_losses(model, together)
    for row in range(3):
        [alone] = together._slice(slice(row, row + 1)).micro_batches(1)
        length = int(alone.valid.sum())
        changes = {"ids": alone.ids[:, :length], "targets": alone.targets[:, :length]}
        changes |= {"valid": alone.valid[:, :length], "weights": alone.weights[:, :length]}
        if alone.segments is not None:
            changes["segments"] = alone.segments[:, :length]
        if alone.source is not None:
            positions = int(alone.source_valid.sum())
            changes["source"] = alone.source[:, :positions]
            changes["source_valid"] = alone.source_valid[:, :positions]
        cut = type(alone)(**{**vars(alone), **changes})
        assert torch.allclose(token_losses(model, cut)[0], losses[row, :length], atol=1e-12)


@pytest.mark.parametrize("family", ["encoder-decoder", "recurrent"])
@pytest.mark.parametrize("attention", ["dot", "additive", "linear"])
def test_cached_seq2seq_decoding_equals_the_full_forward(family, attention):
    table = {"attention": attention}
    if family == "encoder-decoder":
        table |= {"cross_attention": attention}
    model = settings_of(family, **table).build(vocabulary=40, seed=0).double().eval()
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(7, 40, (2, 6), generator=generator)
    source = torch.randint(7, 40, (2, 5), generator=generator)
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    full = model.logits(ModelInputs(ids, source=source, source_valid=valid))
    cache = model.encode(source, valid)
    ones = torch.ones(2, 6, dtype=torch.bool)
    pieces = [
        model.logits(ModelInputs(ids[:, begin:end], ones[:, :end]), cache=cache)
        for begin, end in ((0, 1), (1, 4), (4, 6))
    ]
    assert torch.allclose(torch.cat(pieces, dim=1), full, atol=1e-12)
    cache.reorder(torch.tensor([1, 0]))
    cache.clear()
    again = model.logits(ModelInputs(ids.flip(0), ones), cache=cache)
    assert torch.allclose(again, full.flip(0), atol=1e-12)


def test_a_seq2seq_model_needs_a_source():
    with pytest.raises(UserError, match='Set objective = "prefix"'):
        settings_of("encoder-decoder").build(vocabulary=40, seed=0)(batch_for("decoder"))


def test_encoder_decoder_refuses_self_attention_kinds_as_cross_attention():
    with pytest.raises(UserError, match="cross_attention = group stays within one sequence"):
        settings_of("encoder-decoder", cross_attention="group")
