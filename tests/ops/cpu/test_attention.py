"""Attention by a kernel equals the explicit path: outputs, gradients, and what dropout drops."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.attend import attend
from regard.attention.function import HeadShape
from regard.attention.kinds.additive import AdditiveScore
from regard.attention.kinds.dot import DotProduct
from regard.attention.masks import mask as masks
from regard.ops.cpu import library

RULES = ("dot", "additive")


def rule_of(name, *, heads, width):
    if name == "dot":
        return DotProduct()
    torch.manual_seed(1)
    return AdditiveScore(
        HeadShape(width=width, heads=heads, context=64), hidden=library.LIBRARY.lanes
    )


def drawn(b, h, i, j, d, *, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    sizes = (i, j, j, i)
    # As layers make them: a head's numbers are not beside those of its next place.
    q, k, v, pull = (torch.randn(b, n, h, d, generator=generator).transpose(1, 2) for n in sizes)
    return [scale * q, k, v], pull


def answers(rule, given, pull, mask, *, dropout=0.0, explicit=False):
    if explicit:
        rule, given, pull = copy.deepcopy(rule).double(), [x.double() for x in given], pull.double()
    given = [x.detach().requires_grad_() for x in given]
    torch.manual_seed(3)
    attended = attend(*given, mask, rule, dropout=dropout, want_weights=explicit)
    parameters = list(rule.parameters())
    return attended.path, [
        attended.out.detach(),
        *torch.autograd.grad(attended.out, [*given, *parameters], pull),
    ]


def check_equal(rule, given, pull, mask, *, dropout=0.0, path="kernel"):
    took, found = answers(rule, given, pull, mask, dropout=dropout)
    _, wanted = answers(rule, given, pull, mask, dropout=dropout, explicit=True)
    assert took == path
    # A query that sees one key has a gradient of 0, made of parts as large as the others'.
    largest = max(one.abs().max() for one in wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() <= 1e-5 * max(other.abs().max(), 0.1 * largest)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=15, deadline=None)
@given(
    b=st.integers(1, 3),
    h=st.integers(1, 3),
    i=st.integers(8, 150),
    j=st.integers(1, 150),
    vectors=st.integers(1, 5),
    causal=st.booleans(),
    dropout=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)
def test_it_equals_the_explicit_path(name, b, h, i, j, vectors, causal, dropout, seed):
    d = vectors * library.LIBRARY.lanes
    given, pull = drawn(b, h, i, i if causal else j, d, seed=seed)
    mask = masks.causal() if causal else masks.bidirectional()
    check_equal(rule_of(name, heads=h, width=d), given, pull, mask, dropout=dropout)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("causal", [True, False])
def test_long_rows_do_not_round_apart(name, causal):
    given, pull = drawn(1, 1, 1500, 1500, 16)
    mask = masks.causal() if causal else masks.bidirectional()
    check_equal(rule_of(name, heads=1, width=16), given, pull, mask)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_scores_that_a_float_cannot_raise_are_made_in_blocks(dropout):
    given, pull = drawn(2, 2, 40, 40, 16, scale=60.0)
    took, found = answers(DotProduct(), given, pull, masks.causal(), dropout=dropout)
    _, wanted = answers(DotProduct(), given, pull, masks.causal(), dropout=dropout, explicit=True)
    assert took == "query-blocks"
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() <= 1e-4 * other.abs().max()


def test_what_is_no_number_stays_none():
    given, _ = drawn(1, 2, 20, 20, 16)
    given[1][0, 1, 4, 2] = torch.nan
    out = attend(*given, masks.causal()).out
    assert out[0, 1, 4:].isnan().any(dim=-1).all()
    assert not out[0, 0].isnan().any()


def test_a_gradient_that_is_one_number_seen_many_times():
    given, _ = drawn(2, 2, 12, 12, 16)
    tensors = [x.requires_grad_() for x in given]
    ones = torch.autograd.grad(attend(*tensors, masks.causal()).out.sum(), tensors)
    whole = torch.autograd.grad(
        attend(*tensors, masks.causal()).out, tensors, torch.ones(2, 2, 12, 16)
    )
    assert all(torch.equal(a, b) for a, b in zip(ones, whole, strict=True))


def test_bits_do_not_depend_on_threads():
    given, pull, threads = *drawn(3, 2, 70, 70, 16), torch.get_num_threads()
    rule, found = rule_of("additive", heads=2, width=16), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(answers(rule, given, pull, masks.causal(), dropout=0.1)[1])
    finally:
        torch.set_num_threads(threads)
    # The products before the scores are torch's.
    assert all(torch.equal(other[0], found[0][0]) for other in found[1:])


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"mask": masks.causal() & masks.lookback(3)}, "fused-dense"),
        ({"i": 4, "mask": masks.bidirectional()}, "fused-everything"),
        ({"d": 12}, "fused-causal"),
    ],
)
def test_what_it_does_not_know_is_left_to_torch(change, path):
    asked = {"i": 20, "d": 16, "mask": masks.causal(), **change}
    given, _ = drawn(1, 2, asked["i"], 20, asked["d"])
    assert attend(*given, asked["mask"]).path == path


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((2, 2, 20, 16), (1, 2, 20, 16), (1, 2, 20, 16)),
        ((2, 2, 20, 16), (2, 1, 20, 16), (2, 1, 20, 16)),
        ((2, 2, 20, 16), (2, 2, 20, 16), (2, 1, 20, 16)),
        ((0, 2, 20, 16), (0, 2, 20, 16), (0, 2, 20, 16)),
        ((2, 2, 20, 16), (2, 2, 20, 16), (2, 2, 20, 12)),
    ],
)
def test_tensors_that_only_fit_when_stretched_are_left_to_torch(name, q, k, v):
    given = [torch.randn(shape) for shape in (q, k, v)]
    attended = attend(*given, masks.causal(), rule_of(name, heads=2, width=16))
    assert attended.path != "kernel"
    assert attended.out.shape == (*q[:3], v[-1])


def test_whoever_wants_products_one_by_one_gets_them():
    given, _ = drawn(1, 2, 20, 20, 16)
    with sdpa_kernel(SDPBackend.MATH):
        assert attend(*given, masks.causal()).path == "fused-causal"


def test_a_run_says_whose_kernels_it_used(used):
    from regard.training.device import choose_machine

    machine = choose_machine("cpu", threads=torch.get_num_threads())
    assert machine.products == f"regard, {used.name}"
