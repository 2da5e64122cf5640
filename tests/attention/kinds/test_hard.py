"""Hard attention: the worked example of the specification, ties, and that Q and K learn nothing."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.attend import attend
from regard.attention.function import HeadShape
from regard.attention.kinds.hard import Hard
from regard.attention.masks import mask as masks
from regard.attention.multi_head import build_mixer
from regard.attention.token_positions import TokenPositions

KEYS = [(0, 1, 2), (1, 1, 2), (-1, 1, -2), (0, -1, -2)]
VALUES = [(3, 2, -4), (3, -2, 4), (3, 2, 0), (3, 2, 0)]
QUERY = [(-2, 1, 1)]
RULE = Hard().build(HeadShape(width=3, heads=1))


def heads(rows: list[tuple[int, ...]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)[None, None].requires_grad_()


def test_argmax_by_hand():
    q, k, v = heads(QUERY), heads(KEYS), heads(VALUES)
    unscaled = RULE.scores(q, k) * 3**0.5
    assert torch.allclose(unscaled.flatten(), torch.tensor([3.0, 1.0, 1.0, -3.0]).double())
    attended = attend(q, k, v, function=RULE, need_weights=True)
    assert attended.weights.flatten().tolist() == [1, 0, 0, 0]
    assert attended.out.flatten().tolist() == [3, 2, -4]


def test_no_gradient_reaches_query_and_keys():
    q, k, v = heads(QUERY), heads(KEYS), heads(VALUES)
    out = attend(q, k, v, function=RULE).out.sum()
    of_q, of_k, of_v = torch.autograd.grad(out, (q, k, v), materialize_grads=True)
    assert torch.equal(of_q, torch.zeros_like(q))
    assert torch.equal(of_k, torch.zeros_like(k))
    assert of_v[0, 0].tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_the_first_key_wins_a_tie_among_the_allowed():
    q, k, v = heads(QUERY), heads(KEYS), heads(VALUES)
    not_the_best = masks.Mask(lambda b, h, i, j: j > 0, "not the first key")
    weights = attend(q, k, v, not_the_best, RULE, need_weights=True).weights
    assert weights.flatten().tolist() == [0, 1, 0, 0]


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(st.integers(-2, 2), min_size=15, max_size=15),  # few values: many ties
    allowed=st.lists(st.booleans(), min_size=25, max_size=25),
)
def test_one_key_the_best_the_first_of_the_allowed(numbers, allowed):
    table = torch.tensor(allowed).view(1, 1, 5, 5)
    mask = masks.Mask(lambda b, h, i, j: table[b, h, i, j], "table")
    x = torch.tensor(numbers, dtype=torch.float64).view(1, 1, 5, 3)
    weights = attend(x, x, x, mask, RULE, need_weights=True).weights[0, 0]
    scores = RULE.scores(x, x)[0, 0]
    for query in range(5):
        able = [key for key in range(5) if table[0, 0, query, key]]
        expected = [0.0] * 5
        if able:
            expected[max(able, key=lambda key: float(scores[query, key]))] = 1.0
        assert weights[query].tolist() == expected


def test_inside_a_model_only_values_and_out_learn():
    torch.manual_seed(0)
    mixer = build_mixer(Hard(), HeadShape(width=3, heads=2))
    out = mixer(torch.randn(2, 5, 6), mask=masks.causal(), positions=TokenPositions.of_row(5)).out
    out.square().sum().backward()
    learning = {name for name, p in mixer.named_parameters() if p.grad is not None}
    assert learning == {"value.weight", "value.bias", "out.weight", "out.bias"}


def test_decoding_through_the_cache_equals_one_pass():
    torch.manual_seed(0)
    mixer = build_mixer(Hard(), HeadShape(width=3, heads=2)).double()
    x = torch.randn(2, 6, 6, dtype=torch.float64)
    whole = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(6)).out
    cache = mixer.new_cache(6)
    for n in range(6):
        positions = TokenPositions.of_row(n + 1)
        out = mixer(x[:, n : n + 1], mask=masks.causal(), positions=positions, cache=cache).out
        assert torch.allclose(out, whole[:, n : n + 1], atol=1e-12)
