"""Losses that rise: planted divergence is found, and healthy noise is not."""

import numpy as np
import pytest

from regard.evaluation.health.divergence import MIN_LOSSES, loss_rise


def falling(windows=150, *, start=9.0, end=4.6, noise=0.05, seed=0):
    """A loss that falls to `end`, with noise in proportion."""
    generator = np.random.default_rng(seed)
    curve = end + (start - end) * np.exp(-np.arange(windows) / (windows / 7))
    return curve * (1 + noise * generator.standard_normal(windows))


@pytest.mark.parametrize("start", [9.0, 0.69, 2.3])
@pytest.mark.parametrize("at", [0.3, 0.5, 0.8])
def test_a_jump_that_stays_is_a_rise(start, at):
    curve = falling(start=start, end=start / 2)
    curve[int(at * len(curve)) :] = 0.95 * start
    assert loss_rise(list(curve))


def test_a_loss_far_above_its_start_is_a_rise():
    curve = 9.0 + 6 * (1 - np.exp(-np.arange(60) / 10))
    assert loss_rise(list(curve))
    assert loss_rise([4.0, 41.0, 104.0, *[30.0] * 60]), "also where it blows up at once"
    assert loss_rise([0.02] * 5 + [3.0] * 40), "also where fine-tuning starts near zero"


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.2])
@pytest.mark.parametrize(
    ("start", "end"), [(9.0, 4.6), (9.0, 8.9), (0.69, 0.69), (0.69, 0.02), (0.05, 0.03)]
)
def test_noise_and_slow_training_are_no_rise(start, end, noise):
    for seed in range(100):
        for windows in (MIN_LOSSES, 200):
            curve = falling(windows, start=start, end=end, noise=noise, seed=seed)
            assert loss_rise(list(curve)) == "", (seed, windows)


def test_a_spike_that_recovers_is_no_rise():
    curve = falling()
    curve[100:104] = 20.0
    assert loss_rise(list(curve)) == ""


def test_a_short_training_is_not_judged():
    rising = [float(loss) for loss in range(1, MIN_LOSSES + 1)]
    assert loss_rise(rising)
    assert loss_rise(rising[:-1]) == ""
    assert loss_rise([]) == ""
