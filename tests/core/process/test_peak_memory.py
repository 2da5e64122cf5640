"""Peak memory is that of the work since the last reset, or unknown."""

from __future__ import annotations

import sys

import pytest

from regard.core.process import peak_memory
from regard.core.process.malloc_tuning import release_freed_memory
from regard.core.process.peak_memory import peak_memory_bytes, reset_peak_memory

SIZE = 300 * 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux resets the peak")
def test_a_reset_forgets_what_was_freed() -> None:
    before = peak_memory_bytes()
    large = bytearray(b"1") * SIZE
    with_large = peak_memory_bytes()
    assert before is not None
    assert with_large is not None
    assert with_large >= SIZE
    del large
    release_freed_memory()  # a tuned malloc keeps it
    reset_peak_memory()
    after = peak_memory_bytes()
    assert after is not None
    assert after < with_large - SIZE / 2


def test_where_the_peak_cannot_be_reset_only_a_higher_one_counts(monkeypatch) -> None:
    peaks = iter((500, 500, 700, 700))
    monkeypatch.setattr(peak_memory, "_system_peak", lambda: next(peaks))
    monkeypatch.setattr(peak_memory, "_peak_before", 0)
    monkeypatch.setattr(peak_memory, "CLEAR_REFS", peak_memory.CLEAR_REFS.with_name("absent"))
    reset_peak_memory()
    assert peak_memory_bytes() is None, "the training before needed as much or more"
    assert peak_memory_bytes() == 700
