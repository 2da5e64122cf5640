"""The ledger: tensors and formulas agree with known counts; a difference is an error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.small_models import LIKE_BERT, LIKE_LLAMA, VOCABULARY, classifier, family_of
from torch import nn

from regard.adapters import Adapter
from regard.adapters.bias_only import BiasOnly
from regard.adapters.full import Full
from regard.adapters.head_only import HeadOnly
from regard.adapters.ledger import ledger
from regard.adapters.lora import Lora
from regard.adapters.prefix_tuning import PrefixTuning
from regard.adapters.prompt_tuning import PromptTuning
from regard.adapters.top_layers import TopLayers
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount, total_parameters
from regard.models.heads.task_heads import (
    ClassificationHead,
    Pooling,
    SentenceHead,
    SpanHead,
    TokenHead,
    ValueHead,
)
from regard.models.task_models.patch_model import PatchHead
from regard.models.task_models.task_model import SequenceClassifier, TaskModel

D, L = 16, 2


def ledger_of(
    adapter: Adapter,
    name: str = "encoder",
    *,
    labels: int = 2,
    pooling: Pooling = "mean",
    **table,
):
    table = {"context": 140, **table}
    model = classifier(name, labels=labels, pooling=pooling, **table)
    adapter.apply(model, seed=0)
    return ledger(model, adapter, family_of(name, **table), vocabulary=VOCABULARY)


@pytest.mark.parametrize("name", ["encoder", "decoder"])
@pytest.mark.parametrize(
    ("adapter", "count"),
    [
        (HeadOnly(), 2 * D + 2),
        (PromptTuning(length=128), 130 * D + 2),
        (PrefixTuning(length=128), 2 * 128 * L * D + 2 * D + 2),
        (Lora(rank=4), 4 * (D + D) * 2 * L + 2 * D + 2),
        (Lora(rank=1, targets=("up_proj",)), (D + 4 * D) * L + 2 * D + 2),
        (BiasOnly(), L * (4 * D + 4 * D + D + 2 * D) + D + 2 * D + 2),
        (TopLayers(layers=1), 12 * D * D + 9 * D + 4 * D + 2 * D + 2 * D + 2),
    ],
    ids=["head", "prompt", "prefix", "lora", "lora-up_proj", "bias", "top"],
)
def test_counts_for_two_labels(adapter, count, name):
    result = ledger_of(adapter, name)
    assert (
        result.total
        == count
        == sum(row.count for row in result.rows)
        == total_parameters(result.terms)
    )
    assert result.fraction == pytest.approx(count / result.of)


def test_full_trains_every_parameter():
    result = ledger_of(Full())
    assert result.total == result.of
    assert result.fraction == 1.0


@pytest.mark.parametrize(
    ("pooling", "tied"), [("first", True), ("mean", True), ("first", False), ("mean", False)]
)
def test_full_counts_no_unused_parameters(pooling, tied):
    result = ledger_of(Full(), pooling=pooling, boundary=True, **LIKE_BERT, tied=tied)
    transform = D * D + D + 2 * D + VOCABULARY  # linear, norm, and a bias for each token
    boundary = 32 * D + 4 * D * D + 6 * D
    unused = transform + boundary + (0 if tied else VOCABULARY * D)
    assert result.of - result.total == unused + (0 if pooling == "first" else D * D + D)
    assert result.fraction < 1.0


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_grouped_key_value_heads_make_a_prefix_smaller(heads):
    result = ledger_of(
        PrefixTuning(length=128), "decoder", **{**LIKE_LLAMA, "key_value_heads": heads}
    )
    assert result.total == 2 * 128 * L * (heads * 4) + 2 * D + 2


def test_an_encoder_decoder_has_a_prefix_in_all_three_attentions():
    family = family_of("encoder-decoder", context=140)
    model = family.build(vocabulary=VOCABULARY, seed=0)
    adapter = PrefixTuning(length=128)
    adapter.apply(model, seed=0)
    result = ledger(model, adapter, family, vocabulary=VOCABULARY)
    assert result.total == 2 * 128 * D * 3 * L
    assert len(result.rows) == 3 * L
    assert result.rows[0].shape == (2, 128, D)


@settings(max_examples=40, deadline=None)
@given(
    rank=st.integers(1, 4),
    layers=st.integers(1, 3),
    heads=st.sampled_from([1, 2, 4]),
    labels=st.integers(2, 5),
    targets=st.sets(
        st.sampled_from(["query", "key", "value", "out", "up_proj", "down_proj", "*.key"]),
        min_size=1,
    ),
)
def test_lora_trains_rank_times_inputs_plus_outputs(rank, layers, heads, labels, targets):
    adapter = Lora(rank=rank, targets=tuple(sorted(targets)))
    result = ledger_of(
        adapter, "decoder", labels=labels, layers=layers, key_value_heads=heads, context=10
    )
    kv_width = 4 * heads
    sums = {"query": 2 * D, "key": D + kv_width, "value": D + kv_width, "out": 2 * D}
    sums |= {"up_proj": 5 * D, "down_proj": 5 * D}
    per_layer = sum(sums[name] for name in {target.removeprefix("*.") for target in targets})
    assert result.total == rank * per_layer * layers + labels * (D + 1)


@given(
    name=st.sampled_from(["encoder", "decoder"]),
    table=st.fixed_dictionaries(
        {
            "layers": st.integers(1, 3),
            "norm": st.sampled_from(["layer", "rms"]),
            "norm_placement": st.sampled_from(["pre", "post"]),
            "activation": st.sampled_from(["gelu", "swiglu"]),
            "biases": st.booleans(),
            "projections": st.sampled_from(["separate", "shared-qk", "shared-qkv"]),
            "positions": st.sampled_from(["learned", "relative", "none"]),
            "attention": st.sampled_from(["dot", "additive", "hard"]),
            "mlp_width": st.sampled_from([0, 7]),
        }
    ),
    adapter=st.sampled_from(
        [BiasOnly(), TopLayers(layers=1), Lora(targets=("out",)), PrefixTuning(length=3)]
    ),
)
def test_formulas_hold_for_any_settings(name, table, adapter):
    if isinstance(adapter, BiasOnly) and not table["biases"]:
        return
    assert ledger_of(adapter, name, **table).total > 0


def test_a_patch_embedding_and_concatenated_positions_are_counted():
    concatenated = {"kind": "learned", "combine": "concatenate", "position_width": 6}
    table = {"patch_dim": 5, "embedding_norm": True}
    assert ledger_of(BiasOnly(), **table).total == ledger_of(BiasOnly()).total + 2 * D
    result = ledger_of(PromptTuning(length=7), positions=concatenated, tied=False)
    assert result.total == 7 * 10 + 2 * D + 2
    assert result.terms[0] == ParameterCount("prompt", "7·10", 70)


def test_formula_and_tensors_that_differ_are_an_error():
    model = classifier()
    adapter = Lora(rank=4)
    adapter.apply(model, seed=0)
    with pytest.raises(UserError, match=r"546 .* tensors and 290 "):
        ledger(model, Lora(rank=2), family_of("encoder"), vocabulary=VOCABULARY)
    model.body.stack.norm.requires_grad_(True)
    with pytest.raises(UserError, match=r"578 .* tensors and 546 .* formula"):
        ledger(model, adapter, family_of("encoder"), vocabulary=VOCABULARY)


class CustomHead(nn.Module):
    """A head without a formula."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(D, 3)


def test_a_head_without_a_formula_is_counted():
    model = TaskModel.__new__(SequenceClassifier)
    TaskModel.__init__(model, classifier().body, CustomHead(), seed=0)
    HeadOnly().apply(model, seed=0)
    result = ledger(model, HeadOnly(), family_of("encoder"), vocabulary=VOCABULARY)
    assert result.terms == (ParameterCount("custom head", "counted: it has no formula", 51),)
    counts = [ParameterCount("mine", "3·w + 3", 51)]
    table = {"vocabulary": VOCABULARY, "head_counts": counts}
    assert ledger(model, HeadOnly(), family_of("encoder"), **table).terms == tuple(counts)


@pytest.mark.parametrize(
    "head",
    [
        ClassificationHead(D, labels=5),
        TokenHead(D, labels=3),
        SpanHead(D),
        ValueHead(D),
        SentenceHead(),
        PatchHead(D, patch_dim=4),
    ],
    ids=lambda head: type(head).__name__,
)
def test_every_head_counts_as_its_formula(head):
    assert total_parameters(head.count_parameters()) == sum(
        parameter.numel() for parameter in head.parameters()
    )
