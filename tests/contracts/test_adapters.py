"""Every adapter on every family: it trains exactly the parameters of its ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.adapters.small_models import (
    LIKE_BERT,
    LIKE_LLAMA,
    VOCABULARY,
    batch_of,
    body,
    classifier,
    family_of,
    outputs,
    perturbed,
    same_bits,
)
from torch import nn
from torch.optim import AdamW

from regard.adapters import ADAPTERS
from regard.adapters.full import Full
from regard.adapters.head_only import HeadOnly
from regard.adapters.ledger import ledger, trained_tensors
from regard.adapters.lora import Lora
from regard.adapters.none import NoTraining
from regard.adapters.prompt_tuning import PromptTuning
from regard.adapters.top_layers import TopLayers
from regard.attention.kinds import ATTENTION
from regard.core.errors import UserError
from regard.core.settings import read_settings, to_table
from regard.models.families import FAMILIES
from regard.models.task_models.task_model import TaskModel
from regard.training.checkpoint import load_tensors, model_tensors

REFUSED = {("recurrent", kind) for kind in ("top", "prompt", "prefix", "lora")}
"Families and adapters that do not fit."


def adapter_of(kind: str, **table):
    part = ADAPTERS.get(kind).part
    lengths = {"length": 3} if "length" in part.model_fields else {}
    return read_settings(part, {**lengths, **table})


def model_for(kind: str, name: str, **table):
    """A model of the family with the adapter; None where it must refuse, and does."""
    adapter, model = adapter_of(kind), body(name, **table)
    is_refused = (name, kind) in REFUSED
    has_nothing_to_train = kind == "head" or (kind == "bias" and table)
    if is_refused or has_nothing_to_train:
        with pytest.raises(UserError, match="adapt"):
            adapter.apply(model, seed=0)
        if is_refused:
            with pytest.raises(UserError, match="adapt"):
                adapter.count_parameters(family_of(name, **table), vocabulary=VOCABULARY)
        return None
    adapter.apply(model, seed=0)
    return model


def train_briefly(model, batch, *, steps: int = 3):
    model.train()
    optimizer = AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for _ in range(steps):
        [term] = model(batch).values()
        (term.sum / term.weight).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


@pytest.mark.parametrize("name", FAMILIES.names())
@pytest.mark.parametrize("kind", ADAPTERS.names())
def test_every_family_is_adapted_or_refused(kind, name):
    adapter, family, model = adapter_of(kind), family_of(name), model_for(kind, name)
    if model is None:
        return
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    rows = {row.name for row in ledger(model, adapter, family, vocabulary=VOCABULARY).rows}
    assert bool(rows) is (kind != "none")
    if not rows:
        return
    train_briefly(model, replace(batch_of(), labels=None))
    frozen = [p for p in model.parameters() if not p.requires_grad]
    assert all(parameter.grad is None for parameter in frozen)
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert moved <= rows
    assert moved, "training changes something"
    if kind not in ("full",):  # an untied table has rows that no batch contains
        assert moved == rows


@pytest.mark.parametrize("kind", ADAPTERS.names())
@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize(
    "table",
    [{}, LIKE_BERT, {**LIKE_BERT, "tied": False, "boundary": True}],
    ids=["plain", "like-bert", "untied"],
)
def test_a_task_trains_its_head_and_adapter_and_no_unused_parameters(kind, pooling, table):
    targets = {"targets": ("*",)} if kind == "lora" else {}
    adapter, family = adapter_of(kind, **targets), family_of("encoder", **table)
    model = classifier("encoder", pooling=pooling, **table)
    adapter.apply(model, seed=0)
    result = ledger(model, adapter, family, vocabulary=VOCABULARY)
    names = {row.name for row in result.rows}
    assert ("head.labels.weight" in names) is (kind != "none")
    uses_pooler = pooling == "first" and bool(table)
    assert any(name.startswith("body.pooler") for name in names) is (kind == "full" and uses_pooler)
    if kind == "none":
        return
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    # Two segments in every row, so that no parameter stays unchanged by chance.
    train_briefly(model, replace(batch_of(), segments=torch.arange(9).expand(3, -1) // 5))
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert moved == names


@pytest.mark.parametrize("kind", ["full", "bias", "lora"])
def test_a_pooler_that_no_task_uses_stays_frozen(kind):
    adapter, family = adapter_of(kind), family_of("encoder", **LIKE_BERT)
    model = body("encoder", **LIKE_BERT)
    adapter.apply(model, seed=0)
    result = ledger(model, adapter, family, vocabulary=VOCABULARY)
    assert not [row.name for row in result.rows if "pooler" in row.name]
    trains_head = any(row.name.startswith("head.transform") for row in result.rows)
    assert trains_head is (kind == "full"), "tokens are predicted through it"


def test_full_fine_tuning_saves_frozen_parameters_too():
    """No base model holds them: the pooler of a run has to be in the run."""
    model, other = classifier(**LIKE_BERT), classifier(**LIKE_BERT)
    for one in (model, other):
        Full().apply(one, seed=0)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    kept = model_tensors(model)
    assert "body.pooler.linear.weight" in kept
    load_tensors(other, {name: tensor.clone() for name, tensor in kept.items()}, where=Path("kept"))
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)
    )


@pytest.mark.parametrize("name", FAMILIES.names())
@pytest.mark.parametrize("kind", ADAPTERS.names())
@pytest.mark.parametrize("table", [{}, LIKE_LLAMA], ids=["plain", "like-llama"])
def test_a_fresh_adapter_changes_no_bit_unless_it_adds_virtual_tokens(kind, name, table):
    if table and name == "recurrent":
        pytest.skip("a recurrent model has none of these settings")
    model = model_for(kind, name, **table)
    if model is None:
        return
    before, after = outputs(body(name, **table)), outputs(model)
    if adapter_of(kind).virtual_tokens:
        assert not torch.allclose(after, before, atol=1e-3)
    elif any(isinstance(module, nn.RNNBase) for module in model.modules()):
        assert torch.allclose(after, before, atol=1e-6)  # torch runs a frozen GRU by other kernels
    else:
        assert same_bits(after, before)


@pytest.mark.parametrize("kind", ADAPTERS.names())
def test_merged_equals_unmerged_or_merging_is_refused(kind):
    adapter, model = adapter_of(kind), classifier()
    parameters = sum(p.numel() for p in model.parameters())
    adapter.apply(model, seed=0)
    perturbed(model)
    before = outputs(model)
    try:
        adapter.merge(model)
    except UserError:
        assert adapter.virtual_tokens  # every other adapter changes weights
        return
    assert torch.allclose(outputs(model), before, atol=1e-5)
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("kind", ADAPTERS.names())
def test_the_seed_decides_the_initial_values(kind):
    def fresh(seed):
        model = classifier()
        adapter_of(kind).apply(model, seed=seed)
        return trained_tensors(model)

    first, again, other = fresh(0), fresh(0), fresh(1)
    assert first.keys() == again.keys() == other.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = bool(ADAPTERS.get(kind).part.new_parameters)
    assert any(not torch.equal(first[name], other[name]) for name in first) is drawn


@pytest.mark.parametrize("kind", ADAPTERS.names())
def test_trained_tensors_load_onto_another_copy_of_the_base(kind):
    model, copy = classifier(), classifier()
    for one, seed in ((model, 0), (copy, 5)):
        adapter_of(kind).apply(one, seed=seed)
    perturbed(model)
    load_tensors(copy, trained_tensors(model), where=Path("kept"))
    assert torch.equal(outputs(copy), outputs(model))


@pytest.mark.parametrize("kind", ADAPTERS.names())
def test_accumulated_gradients_equal_those_of_the_whole_batch(kind):
    model = classifier().double()
    adapter_of(kind).apply(model, seed=0)
    if not trained_tensors(model):
        pytest.skip(f"{kind} trains nothing")
    perturbed(model)
    batch = batch_of(rows=4)
    gradients = []
    for count in (1, 2):
        model.zero_grad()
        for micro_batch in batch.micro_batches(count):
            model(micro_batch)["label"].sum.backward()
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys() <= trained_tensors(model).keys()
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-10), name


@pytest.mark.parametrize("kind", ADAPTERS.names())
def test_settings_round_trip_through_a_recipe(kind):
    adapter = adapter_of(kind)
    assert read_settings(type(adapter), to_table(adapter)) == adapter


@pytest.mark.parametrize("attention", ATTENTION.names())
@pytest.mark.parametrize("kind", ["bias", "lora", "prefix", "prompt", "top", "full"])
def test_formulas_hold_for_every_kind_of_attention(kind, attention):
    """A prefix is refused by kinds that keep no keys and values."""
    targets = {"targets": ("out", "mlp.*")} if kind == "lora" else {}
    adapter = adapter_of(kind, **targets)
    family, model = family_of("encoder", attention=attention), body("encoder", attention=attention)
    if kind == "prefix" and attention in ("linear", "synthesizer-dense", "synthesizer-random"):
        for call in (
            lambda: adapter.apply(model, seed=0),
            lambda: adapter.count_parameters(family, vocabulary=VOCABULARY),
        ):
            with pytest.raises(UserError, match="adds keys and values to attend to"):
                call()
        return
    adapter.apply(model, seed=0)
    result = ledger(model, adapter, family, vocabulary=VOCABULARY)
    assert result.total == sum(term.value for term in result.terms) > 0
    assert torch.isfinite(outputs(model)).all()


def test_a_model_is_not_adapted_twice_unless_merged():
    model = body("decoder")
    Lora(rank=2).apply(model, seed=0)
    with pytest.raises(UserError, match=r"adapted already: it has stack\.blocks\.0.*lora_A"):
        PromptTuning(length=2).apply(model, seed=0)
    Lora(rank=2).merge(model)
    PromptTuning(length=2).apply(model, seed=0)
    with pytest.raises(UserError, match="adapted already: it has prompt"):
        Full().apply(model, seed=0)


@pytest.mark.parametrize("kind", ["prompt", "prefix"])
def test_virtual_tokens_cannot_be_merged(kind):
    model = body("decoder")
    adapter_of(kind).apply(model, seed=0)
    with pytest.raises(UserError, match=f"a {kind} is no change of the model's weights"):
        adapter_of(kind).merge(model)


@pytest.mark.parametrize("kind", ["prompt", "prefix"])
@pytest.mark.parametrize("length", [23, 24, 100])
def test_virtual_tokens_beyond_the_context_are_refused(kind, length):
    with pytest.raises(
        UserError, match=rf"adapt\.length: a {kind} of {length} virtual tokens leaves"
    ):
        adapter_of(kind, length=length).apply(body("decoder"), seed=0)


def test_head_only_needs_a_task_head():
    with pytest.raises(UserError, match="no task head"):
        HeadOnly().apply(body("encoder"), seed=0)


def test_no_training_trains_nothing():
    model = classifier()
    NoTraining().apply(model, seed=0)
    assert isinstance(model, TaskModel)
    assert not trained_tensors(model)
    result = ledger(model, NoTraining(), family_of("encoder"), vocabulary=VOCABULARY)
    assert (result.rows, result.total, result.terms) == ((), 0, ())


def test_more_top_layers_than_blocks_are_refused():
    with pytest.raises(UserError, match=r"adapt\.layers = 3\b.*\b2\b"):
        TopLayers(layers=3).apply(body("decoder"), seed=0)


def test_a_model_without_biases_is_refused():
    with pytest.raises(UserError, match="no biases to train"):
        adapter_of("bias").apply(body("decoder", **LIKE_LLAMA), seed=0)


def test_tensors_of_another_adapter_are_refused():
    model = classifier()
    PromptTuning(length=3).apply(model, seed=0)
    kept = trained_tensors(model)
    other = classifier()
    PromptTuning(length=4).apply(other, seed=0)
    with pytest.raises(UserError, match=r"body.prompt has shape \(3, 16\)"):
        load_tensors(other, kept, where=Path("kept"))
    with pytest.raises(UserError, match=r"not in the file \['body.prompt'\]"):
        load_tensors(
            other, {n: t for n, t in kept.items() if n != "body.prompt"}, where=Path("kept")
        )


def test_dropout_is_drawn_alike_by_a_model_whose_adapter_adds_none():
    """A frozen model in training drops as it did: adapting changes no draw of the body."""
    batch = replace(batch_of(), labels=None)
    model = body("decoder", dropout=0.2).train()
    torch.manual_seed(0)
    plain = model(batch)["token"].sum
    TopLayers(layers=1).apply(model, seed=0)
    torch.manual_seed(0)
    assert torch.equal(model(batch)["token"].sum, plain)
