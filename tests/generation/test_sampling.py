"""Sampling: temperature, top-k, top-p (nucleus), and drawing by the inverse CDF."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.generation import sampling
from regard.generation.sampling import Greedy, Sampling, draw, nucleus, top_k_ids

weights = st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any)


def normalised(counts):
    p = torch.tensor([counts], dtype=torch.float64)
    return p / p.sum()


def test_greedy_takes_the_most_likely_token():
    logprobs = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3]]).log()
    assert Greedy().choose(logprobs, torch.zeros(2)).tolist() == [1, 0]


def test_top_k_keeps_k_and_breaks_ties_by_id():
    p = normalised([1, 3, 1, 1, 2])
    assert top_k_ids(p, 3).tolist() == [[0, 1, 4]]
    kept = Sampling(top_k=3).distribution(p.log())[0]
    torch.testing.assert_close(kept, normalised([1, 3, 0, 0, 2])[0])


def test_top_p_keeps_a_set_that_sums_to_exactly_p():
    p = normalised([5, 3, 2])  # 0.5 + 0.3 is just enough for 0.8
    assert (nucleus(p, 0.8)[0] > 0).tolist() == [True, True, False]
    assert (nucleus(p, 0.81)[0] > 0).tolist() == [True, True, True]


@settings(deadline=None)
@given(weights, st.floats(0.001, 1))
def test_top_p_keeps_the_smallest_set_that_sums_to_p(counts, top_p):
    p = normalised(counts)
    kept = nucleus(p, top_p)[0] > 0
    inside = p[0][kept].sort(descending=True).values
    assert len(inside) >= 1
    assert inside.sum() >= top_p - 1e-9
    assert inside[:-1].sum() < top_p + 1e-9  # without its least likely one it is not enough
    assert p[0][~kept].max(dim=0).values <= inside[-1] if (~kept).any() else True


@settings(deadline=None)
@given(weights, st.integers(1, 12))
def test_top_k_keeps_the_k_most_likely_in_proportion(counts, k):
    p = normalised(counts)[0]
    kept = Sampling(top_k=k).distribution(p.log()[None])[0]
    possible = min(k, int((p > 0).sum()))
    assert int((kept > 0).sum()) == possible
    assert p[kept > 0].sum() == pytest.approx(p.sort(descending=True).values[:k].sum().item())
    assert kept.sum() == pytest.approx(1)


def test_top_p_sums_probabilities_among_the_top_k():
    # Of the two most likely, 6 and 5, the first alone has 55 %; of all three it has 40 %.
    logprobs = normalised([6, 4, 5]).log()
    for top_p, kept in ((0.6, [True, False, True]), (0.5, [True, False, False])):
        assert (Sampling(top_k=2, top_p=top_p).distribution(logprobs)[0] > 0).tolist() == kept


@settings(deadline=None)
@given(weights, st.floats(0, 1, exclude_max=True))
def test_draw_inverts_the_cumulative_distribution(counts, uniform):
    p = normalised(counts)
    token = draw(p, torch.tensor([uniform], dtype=torch.float64)).item()
    cumulative = p[0].cumsum(0)
    assert p[0, token] > 0
    assert cumulative[token] >= uniform - 1e-12
    assert token == 0 or cumulative[token - 1] <= uniform + 1e-12


def test_the_largest_uniform_number_never_draws_a_token_without_probability():
    p = torch.tensor([[0.1] * 10 + [0.0] * 5], dtype=torch.float64)
    largest = torch.tensor([1.0], dtype=torch.float64).nextafter(torch.tensor([0.0]).double())
    assert draw(p, largest).item() == 9


def test_evenly_spaced_uniforms_draw_tokens_in_proportion():
    p = normalised([1, 0, 2, 5])
    uniforms = (torch.arange(8, dtype=torch.float64) + 0.5) / 8
    drawn = draw(p.expand(8, -1), uniforms)
    assert drawn.bincount(minlength=4).tolist() == [1, 0, 2, 5]


def test_temperature_raises_probabilities_to_its_inverse_power():
    p = normalised([1, 2, 4])
    squared = Sampling(temperature=0.5).distribution(p.log())
    torch.testing.assert_close(squared, normalised([1, 4, 16]))


def test_a_temperature_near_zero_is_greedy_and_stays_a_distribution():
    p = Sampling(temperature=1e-320).distribution(normalised([1, 2, 4]).log())
    assert p.tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": 0},
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.1},
    ],
)
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(ValidationError):
        Sampling(**bad)


def reference_distribution(p, *, k, top_p):
    """Top-k and top-p by sorting the whole row."""
    order = sorted(range(len(p)), key=lambda token: (-p[token], token))[:k]
    total, before, kept = sum(p[token] for token in order), 0.0, {}
    for token in order:
        if before < top_p or not kept:
            kept[token] = p[token]
        before += p[token] / total
    return {token: value / sum(kept.values()) for token, value in kept.items() if value}


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 6), min_size=9, max_size=9).filter(any), min_size=1),
    st.integers(1, 9),
    st.sampled_from([1.0, 0.9511, 0.5127, 0.1037]),
    st.integers(1, 4),
)
def test_nucleus_from_few_candidates_equals_the_full_sort(rows, k, top_p, candidates):
    p = torch.cat([normalised(row) for row in rows])
    with patch.object(sampling, "NUCLEUS_CANDIDATES", candidates):
        kept = Sampling(top_k=k, top_p=top_p).distribution(p.log())
    for row, distribution in zip(p.tolist(), kept.tolist(), strict=True):
        positive = {token: value for token, value in enumerate(distribution) if value}
        assert positive == pytest.approx(reference_distribution(row, k=k, top_p=top_p))


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=9, max_size=9), min_size=1),
    st.integers(0, 9),
    st.sampled_from([1.0, 0.9511, 0.5127]),
    st.integers(0, 2**32 - 1),
)
def test_choose_draws_from_the_distribution(logits, k, top_p, seed):
    rows = torch.tensor(logits, dtype=torch.float32)
    uniforms = torch.rand(
        len(rows), dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    strategy = Sampling(top_k=k, top_p=top_p)
    assert torch.equal(strategy.choose(rows, uniforms), draw(strategy.distribution(rows), uniforms))


def test_a_constant_added_to_all_logits_changes_nothing():
    logits = torch.tensor([[1.0, 3.0, 2.5], [0.0, -1.0, 4.0]], dtype=torch.float64)
    strategy = Sampling(temperature=0.7, top_k=2)
    torch.testing.assert_close(
        strategy.distribution(logits), strategy.distribution(logits.log_softmax(dim=-1))
    )
