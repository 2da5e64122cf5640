"""Dropout drops at the given rate, preserves the mean, and is determined by torch's seed."""

import pytest
import torch

from regard.nn.dropout import Dropout, dropout, keep_mask, keep_probability, random_draws


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_rate_and_mean(p):
    torch.manual_seed(0)
    n = 200_000
    y = dropout(torch.ones(n), p)
    rate = float((y == 0).float().mean())
    assert abs(rate - p) < 5 * (p * (1 - p) / n) ** 0.5 + 1 / 65_536
    assert torch.allclose(y[y > 0], torch.tensor(1 / keep_probability(p)))
    assert abs(float(y.mean()) - 1) < 5 * (p / (1 - p) / n) ** 0.5


def test_four_draws_of_an_integer_are_uniform_and_uncorrelated():
    torch.manual_seed(0)
    draws = random_draws((50_000, 4), torch.device("cpu")).double()
    means = draws.mean(dim=0) / 65_536
    assert float(means.abs().max()) < 5 * (1 / 12 / 50_000) ** 0.5
    correlations = torch.corrcoef(draws.T) - torch.eye(4)
    assert float(correlations.abs().max()) < 5 / 50_000**0.5


def test_keep_threshold_is_inclusive():
    threshold = round(0.25 * 65_536) - 32_768
    draws = torch.tensor([-32_768, threshold - 1, threshold, 32_767], dtype=torch.int16)
    assert keep_mask(draws, 0.25, dtype=torch.float32).tolist() == [0.0, 0.0, 1.0, 1.0]


def test_seed_determines_the_mask_and_eval_is_the_identity():
    x, layer = torch.randn(7, 5), Dropout(0.3)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert not torch.equal(layer(x), first)
    assert layer.eval()(x) is x


def test_gradient_flows_through_kept_values_only():
    x = torch.randn(40, 3, requires_grad=True)
    y = dropout(x, 0.5)
    y.sum().backward()
    assert torch.equal(x.grad == 0, y == 0)
    assert torch.allclose(x.grad[y != 0], torch.tensor(2.0))


def test_p_close_to_1_stays_finite():
    torch.manual_seed(0)
    assert torch.isfinite(dropout(torch.ones(1000), 0.999999)).all()
