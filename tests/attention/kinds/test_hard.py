"""Hard attention: an example by hand, ties, and no gradient to queries and keys."""

import torch
from hypothesis import given
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
HARD = Hard().build(HeadShape(width=3, heads=1))


def one_head(rows: list[tuple[int, ...]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)[None, None].requires_grad_()


def test_argmax_by_hand():
    q, k, v = one_head(QUERY), one_head(KEYS), one_head(VALUES)
    unscaled = HARD.scores(q, k) * 3**0.5
    assert torch.allclose(unscaled.flatten(), torch.tensor([3.0, 1.0, 1.0, -3.0]).double())
    attended = attend(q, k, v, function=HARD, need_weights=True)
    assert attended.weights.flatten().tolist() == [1, 0, 0, 0]
    assert attended.out.flatten().tolist() == [3, 2, -4]


def test_queries_and_keys_get_no_gradient():
    q, k, v = one_head(QUERY), one_head(KEYS), one_head(VALUES)
    out = attend(q, k, v, function=HARD).out.sum()
    dq, dk, dv = torch.autograd.grad(out, (q, k, v), materialize_grads=True)
    assert torch.equal(dq, torch.zeros_like(q))
    assert torch.equal(dk, torch.zeros_like(k))
    assert dv[0, 0].tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_the_first_allowed_key_wins_a_tie():
    q, k, v = one_head(QUERY), one_head(KEYS), one_head(VALUES)
    mask = masks.Mask(lambda b, h, i, j: j > 0, "not the first key")
    weights = attend(q, k, v, mask, HARD, need_weights=True).weights
    assert weights.flatten().tolist() == [0, 1, 0, 0]


@given(
    values=st.lists(st.integers(-2, 2), min_size=15, max_size=15),  # few values: many ties
    allowed=st.lists(st.booleans(), min_size=25, max_size=25),
)
def test_weights_select_the_first_best_allowed_key(values, allowed):
    table = torch.tensor(allowed).view(1, 1, 5, 5)
    mask = masks.Mask(lambda b, h, i, j: table[b, h, i, j], "table")
    x = torch.tensor(values, dtype=torch.float64).view(1, 1, 5, 3)
    weights = attend(x, x, x, mask, HARD, need_weights=True).weights[0, 0]
    scores = HARD.scores(x, x)[0, 0]
    for query in range(5):
        keys = [key for key in range(5) if table[0, 0, query, key]]
        expected = [0.0] * 5
        if keys:
            expected[max(keys, key=lambda key: float(scores[query, key]))] = 1.0
        assert weights[query].tolist() == expected


def test_only_value_and_output_projections_get_gradients():
    torch.manual_seed(0)
    mixer = build_mixer(Hard(), HeadShape(width=3, heads=2))
    out = mixer(torch.randn(2, 5, 6), mask=masks.causal(), positions=TokenPositions.of_row(5)).out
    out.square().sum().backward()
    with_gradient = {name for name, p in mixer.named_parameters() if p.grad is not None}
    assert with_gradient == {"value.weight", "value.bias", "out.weight", "out.bias"}


def test_decoding_through_the_cache_equals_one_pass():
    torch.manual_seed(0)
    mixer = build_mixer(Hard(), HeadShape(width=3, heads=2)).double()
    x = torch.randn(2, 6, 6, dtype=torch.float64)
    expected = mixer(x, mask=masks.causal(), positions=TokenPositions.of_row(6)).out
    cache = mixer.new_cache(6)
    for n in range(6):
        positions = TokenPositions.of_row(n + 1)
        out = mixer(x[:, n : n + 1], mask=masks.causal(), positions=positions, cache=cache).out
        assert torch.allclose(out, expected[:, n : n + 1], atol=1e-12)
