"""Files of a run folder in an earlier schema are refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.runs.models.saved_config import read_config
from regard.runs.results import read_audit
from regard.runs.run import Run
from regard.training.checkpoint import load_state


@pytest.mark.parametrize(
    ("file", "schema", "read"),
    [
        ("results.json", 3, lambda folder: Run(folder).results()),
        ("audit.json", 3, lambda folder: read_audit(folder / "audit.json")),
        ("config.json", 3, read_config),
        ("state.json", 2, load_state),
    ],
)
def test_the_previous_schema_is_refused_in_one_sentence(
    tmp_path: Path, file: str, schema: int, read: Callable[[Path], object]
) -> None:
    (tmp_path / file).write_text(json.dumps({"schema": schema - 1}))
    with pytest.raises(UserError) as refused:
        read(tmp_path)
    said = str(refused.value)
    assert str(tmp_path / file) in said
    assert f"schema {schema - 1}" in said
    assert f"reads schema {schema}" in said
