"""SECURITY.md: what stops an attack is shown by tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UNTRUSTED = (ROOT / "SECURITY.md").read_text("utf-8").partition("## What is not trusted")[2]
LINES = UNTRUSTED.partition("## ")[0].splitlines()
ROWS = [line for line in LINES if line.startswith("| ") and not line.startswith("| from |")]


def test_the_table_is_read() -> None:
    assert len(ROWS) > 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:40])
def test_every_row_names_tests_that_exist(row: str) -> None:
    tests = re.findall(r"`(tests/[^`]+)`", row.rpartition(" | ")[2])
    assert tests, "shown by nothing"
    for test in tests:
        content = (ROOT / test).read_text("utf-8")
        assert "def test_" in content or "TARGET = Target(" in content, test
