"""Leaks that need a certain length or certain tokens are found."""

import pytest
from tests.audits.planted_row_leaks import ROW_LEAKS

from regard.audits.audit import audit
from regard.audits.leaks.lengths import probe_lengths


@pytest.mark.parametrize("name", ROW_LEAKS)
def test_leak_of_some_rows_is_found(name: str) -> None:
    report = audit(ROW_LEAKS[name]())
    assert report.verdict == "leak"
    assert all(leak.key > leak.query for leak in report.leaks)
    assert report.leaks[0].opens_with == ()


@pytest.mark.parametrize("limit", [2, 3, 17, 40, 100, 128, 513, 5000])
def test_lengths_cover_residues_and_the_limit(limit: int) -> None:
    lengths = probe_lengths(limit)
    assert lengths[0] == min(limit, 1024)
    assert len(set(lengths)) == len(lengths)
    assert all(2 <= length <= limit for length in lengths)
    for block in (2, 3, 4, 8, 16, 64):
        if 2 * block < limit:
            assert {length % block for length in lengths} >= {0, 1, block - 1}
