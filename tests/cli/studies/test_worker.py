"""The orders of a worker."""

from __future__ import annotations

import io

import pytest

from regard.cli.studies.worker import Inbox


@pytest.mark.parametrize("end", [b"", b'{"recipe": "b.to', b"\xff\n"])
def test_a_study_that_was_killed_leaves_no_worker_that_waits(end: bytes) -> None:
    """Half a request ended the thread that reads, and the worker waited for ever."""
    inbox = Inbox(io.BytesIO(b'{"recipe": "a.toml"}\n' + end))
    assert inbox.next_request() == {"recipe": "a.toml"}
    assert inbox.next_request() is None
