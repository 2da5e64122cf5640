"""The config.json of a model folder, checked before anything is built from it.

Its folder may come from anybody: every key that is used is declared here, and the sizes it gives
are compared with the tensors that are there. A million layers take no more than a line to write.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from regard.core.errors import UserError
from regard.core.files import read_json
from regard.core.json_records import JsonRecord, restore_record
from regard.core.ledger import ParameterCount
from regard.core.untrusted import MAX_PATH, MAX_TENSORS, shorten
from regard.data.tokenizers.limits import MAX_VOCABULARY
from regard.models.tensor_files import count_tensors
from regard.training.checkpoint import ADAPTER_FILE, CONFIG_SCHEMA, WEIGHTS_FILE

DIGEST = r"[0-9a-f]{64}"
SLACK = 4096
"Numbers that a file may lack: of a parameter that is another's alias."


class BaseEntry(JsonRecord):
    path: str = Field(min_length=1, max_length=MAX_PATH)
    fingerprint: str = Field(pattern=f"^{DIGEST}$")


class ImportEntry(JsonRecord):
    source: str = ""
    architecture: str | None = None
    pooling: str | None = None
    normalise: bool = False
    max_tokens: int | None = Field(default=None, ge=1)
    remarks: tuple[str, ...] = ()


class SavedConfig(JsonRecord):
    model: dict[str, Any]
    objective: dict[str, Any]
    vocabulary: int = Field(ge=1, le=MAX_VOCABULARY, strict=True)
    tokenizer: str = Field(pattern=f"^{DIGEST}$")
    architecture: str | None = None
    task: dict[str, Any] | None = None
    task_state: dict[str, Any] | None = None
    adapt: dict[str, Any] | None = None
    base: BaseEntry | None = None
    imported: ImportEntry | None = None

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if (self.adapt is None) != (self.base is None):
            raise ValueError("an adapter and its base model are named together")
        if (self.task is None) != (self.task_state is None):
            raise ValueError("a task and its state are named together")
        return self


def read_config(folder: Path) -> dict[str, Any]:
    """The table in config.json, whose keys are as `SavedConfig` declares them."""
    file = folder / "config.json"
    table = read_json(file, schema=CONFIG_SCHEMA, topic="model")
    try:
        restore_record(SavedConfig, table)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(str(step) for step in first["loc"])
        has_value = first["type"] not in ("missing", "value_error")
        given = f" = {shorten(first['input'])}" if has_value else ""
        message = first["msg"][:1].lower() + first["msg"][1:]
        raise UserError(
            f"{key}{given}: {message}".removeprefix(": "),
            topic="model",
            where=str(file),
            hint="The file is damaged, or not one of regard's: take the model from where it was "
            "made, or train it again.",
        ) from None
    return table


def check_sizes(folder: Path, formulas: Iterable[ParameterCount], *, adapter: bool) -> None:
    """Refuse a config that needs more numbers than its file holds, before any is allocated."""
    file = folder / (ADAPTER_FILE if adapter else WEIGHTS_FILE)
    stored = count_tensors(file)
    if stored.tensors > MAX_TENSORS:
        raise _misfit(file, f"holds {stored.tensors:,} tensors, more than {MAX_TENSORS:,}")
    needed = sum(row.value for row in formulas)
    if needed > stored.numbers + SLACK:
        raise _misfit(
            file, f"holds {stored.numbers:,} numbers, and config.json describes {needed:,}"
        )


def _misfit(file: Path, what: str) -> UserError:
    hint = "One of the two is damaged, or of another model: train or import it again."
    return UserError(what, topic="model", where=str(file), hint=hint)
