"""What every kind of attention owes, whoever wrote it: the catalogue is walked, not listed."""

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.kinds import ATTENTION
from regard.attention.mask import Mask, causal
from regard.attention.rule import HeadShape
from regard.settings import read_settings, table_of

SHAPE = HeadShape(width=6, heads=2)


def rule_of(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    return ATTENTION.get(name).part().build(SHAPE).double()


def heads(seed: int, places: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 2, places, 6, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", ATTENTION.names())
class TestEveryKind:
    def test_is_documented_and_found(self, name):
        entry = ATTENTION.get(name)
        assert entry.summary
        assert "cost" in entry.properties
        assert entry.source.startswith("regard/attention/kinds/")

    def test_settings_survive_a_recipe(self, name):
        part = ATTENTION.get(name).part
        assert read_settings(part, table_of(part())) == part()

    def test_fast_equals_explicit(self, name):
        rule = rule_of(name)
        q, k, v = heads(0, 7), heads(1, 7), heads(2, 7)
        fast = attend(q, k, v, causal(), rule).out
        readable = attend(q, k, v, causal(), rule, want_weights=True).out
        assert torch.allclose(fast, readable, atol=1e-12)

    def test_forbidden_keys_have_no_influence(self, name):
        rule = rule_of(name)
        q, k, v = heads(0, 7), heads(1, 7), heads(2, 7)
        before = attend(q, k, v, causal(), rule).out[:, :, :4]
        k[:, :, 4:] += 10.0
        v[:, :, 4:] -= 10.0
        assert torch.equal(attend(q, k, v, causal(), rule).out[:, :, :4], before)

    def test_empty_rows_are_zeros(self, name):
        rule = rule_of(name)
        nothing = Mask(lambda b, h, i, j: (i + j) < 0, "nothing")
        out = attend(heads(0, 3), heads(1, 3), heads(2, 3), nothing, rule).out
        assert torch.equal(out, torch.zeros_like(out))

    def test_cached_equals_whole(self, name):
        rule = rule_of(name)
        q, k, v = heads(0, 6), heads(1, 6), heads(2, 6)
        whole = attend(q, k, v, causal(), rule).out
        last = attend(q[:, :, 5:], k, v, causal(), rule, first_query=5).out
        assert torch.allclose(whole[:, :, 5:], last, atol=1e-12)

    def test_gradients_are_right(self, name):
        rule = rule_of(name)
        q, k, v = (heads(n, 3).requires_grad_() for n in range(3))
        assert torch.autograd.gradcheck(lambda *x: attend(*x, causal(), rule).out, (q, k, v))
