"""Every attention kind of the catalogue keeps its contracts, which `regard check` runs as well."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.attention.function import HeadShape
from regard.attention.kinds import ATTENTION
from regard.attention.kinds.dot import Dot
from regard.attention.masks.mask import Mask, bidirectional, causal, padding
from regard.attention.multi_head import MultiHeadAttention, build_mixer
from regard.attention.token_positions import TokenPositions
from regard.contracts.attention import ATTENTION_CONTRACTS
from regard.contracts.check import check_part
from regard.contracts.contract import Result
from regard.ops.cpu import library

CONFIGURATIONS = 10
"Random configurations per kind and contract; `make test-all` and `regard check` try more."


def check_contract(name: str, contract: str, *, configurations: int, seed: int = 0) -> Result:
    (result,) = check_part(
        ATTENTION.get(name), only=[contract], configurations=configurations, seed=seed
    )
    return result


@pytest.mark.parametrize("contract", ATTENTION_CONTRACTS)
@pytest.mark.parametrize("name", ATTENTION.names())
def test_every_kind_keeps_every_contract(name: str, contract: str) -> None:
    result = check_contract(name, contract, configurations=CONFIGURATIONS)
    assert result.is_as_declared, result.sentence


@pytest.mark.long
@pytest.mark.parametrize("contract", ATTENTION_CONTRACTS)
@pytest.mark.parametrize("name", ATTENTION.names())
def test_every_kind_keeps_every_contract_in_500_configurations(name: str, contract: str) -> None:
    result = check_contract(name, contract, configurations=500, seed=1)
    assert result.is_as_declared, result.sentence
    assert result.expected_to_fail or result.configurations == 500 or result.is_not_applicable


@pytest.mark.long
def test_the_configurations_cover_every_path_of_dot() -> None:
    paths = {
        "blocks, fused-dense",
        "blocks, fused-everything",
        "fused-causal",
        "fused-dense",
        "fused-everything",
        "stripes, fused-dense",
    }
    if library.LIBRARY is not None and library.REPLACES_MATMUL:
        paths.add("kernel")
    assert set(check_contract("dot", "fast-path", configurations=500).seen) == paths


@given(name=st.sampled_from(ATTENTION.names()), seed=st.integers(0, 2**32))
def test_the_fast_path_equals_the_explicit_path_for_any_seed(name: str, seed: int) -> None:
    result = check_contract(name, "fast-path", configurations=1, seed=seed)
    assert result.is_as_declared, result.sentence


@pytest.mark.parametrize("name", ATTENTION.names())
def test_every_kind_declares_its_cost_and_source(name: str) -> None:
    entry = ATTENTION.get(name)
    assert entry.properties["cost"]
    assert entry.source.startswith("regard/attention/kinds/")
    assert bool(entry.properties["broken"]) == bool(entry.properties["fails"])


def test_every_contract_has_a_one_line_statement() -> None:
    for contract in ATTENTION_CONTRACTS.values():
        assert contract.statement.endswith(".")
        assert len(contract.statement) < 100


def test_check_part_runs_all_contracts_in_order() -> None:
    reported: list[Result] = []
    results = check_part(ATTENTION.get("dot"), configurations=1, on_result=reported.append)
    assert results == reported
    assert [result.contract for result in results] == list(ATTENTION_CONTRACTS)


def copy_weights(theirs: nn.MultiheadAttention, *, width: int, heads: int) -> MultiHeadAttention:
    """Our multi-head attention with the weights of torch's."""
    ours = build_mixer(Dot(), HeadShape(width // heads, heads)).double()
    assert isinstance(ours, MultiHeadAttention)
    names = ("query", "key", "value")
    weights = zip(names, theirs.in_proj_weight.chunk(3), strict=True)
    state = {f"{name}.weight": weight for name, weight in weights}
    biases = zip(names, theirs.in_proj_bias.chunk(3), strict=True)
    state |= {f"{name}.bias": bias for name, bias in biases}
    state |= {"out.weight": theirs.out_proj.weight, "out.bias": theirs.out_proj.bias}
    ours.load_state_dict({name: value.detach().clone() for name, value in state.items()})
    return ours


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("direction", [causal(), bidirectional()], ids=lambda mask: mask.name)
def test_multi_head_dot_equals_torch(direction: Mask, padded: bool) -> None:
    torch.manual_seed(0)
    b, n, width, heads = 3, 7, 12, 4
    theirs = nn.MultiheadAttention(width, heads, batch_first=True, dtype=torch.float64)
    nn.init.normal_(theirs.in_proj_bias)
    nn.init.normal_(theirs.out_proj.bias)
    ours = copy_weights(theirs, width=width, heads=heads)
    x, y = (torch.randn(b, n, width, dtype=torch.float64) for _ in range(2))
    valid = torch.arange(n) < torch.tensor([7, 4, 1])[:, None]
    # Torch's masks have the opposite polarity: True = may not attend.
    forbidden = ~direction.dense(n, n)[0, 0]
    ignored = ~valid if padded else None
    mask = direction & padding(valid) if padded else direction

    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = ours(x_ours, mask=mask, positions=TokenPositions.of_row(n)).out
    expected, _ = theirs(
        x_theirs, x_theirs, x_theirs, attn_mask=forbidden, key_padding_mask=ignored
    )
    assert torch.allclose(out, expected, rtol=0, atol=1e-12)

    (out * y).sum().backward()
    (expected * y).sum().backward()
    assert x_ours.grad is not None
    assert torch.allclose(x_ours.grad, x_theirs.grad, rtol=0, atol=1e-12)
    stacked = [layer.weight.grad for layer in (ours.query, ours.key, ours.value)]
    assert torch.allclose(torch.cat(stacked), theirs.in_proj_weight.grad, rtol=0, atol=1e-12)
    assert torch.allclose(ours.out.weight.grad, theirs.out_proj.weight.grad, rtol=0, atol=1e-12)
