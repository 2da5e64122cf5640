"""Threads of a training follow from the size of its steps."""

import pytest
from torch import nn

from regard.training import threads
from regard.training.threads import OPERATIONS_PER_THREAD, training_threads

MODEL = nn.Linear(99, 100)
"10,000 parameters: 60,000 operations a position."


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_a_thread_has_enough_to_do(monkeypatch, cores):
    monkeypatch.setattr(threads, "usable_cores", lambda: cores)
    for positions in (0, 1, 100, 3_000, 10_000, 10**9):
        chosen = training_threads(MODEL, positions)
        assert 1 <= chosen <= cores
        operations = 6 * 10_000 * positions
        assert chosen == 1 or operations / chosen >= OPERATIONS_PER_THREAD
        more_would_have_too_little = operations / (chosen + 1) < OPERATIONS_PER_THREAD
        assert chosen == cores or more_would_have_too_little
