"""Records: what a run or a study writes to a JSON file, read back by the class that wrote it.

    results.json   {"schema": 3, "run": "mini-gpt", "estimates": [{"split": "dev", …}, …], …}

Of a file that is damaged or of another schema the error names the key; texts are made printable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from regard.core.errors import UserError
from regard.core.files import read_json, write_json
from regard.core.printable import printable


class JsonRecord(BaseModel):
    """Base class; keys of a later version are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True, from_attributes=True)


AnyRecord = TypeVar("AnyRecord")


def write_record(file: Path, record: Any, *, schema: int) -> None:
    """Write a `JsonRecord` or a dataclass atomically."""
    write_json(file, {"schema": schema, **record_table(record)})


def record_table(record: Any) -> dict[str, Any]:
    """A record as plain values for JSON."""
    table: dict[str, Any] = _adapter(type(record)).dump_python(record)
    return table


def restore_record(kind: type[AnyRecord], table: Mapping[str, Any]) -> AnyRecord:
    """The inverse of `record_table`; wrong values raise a `ValidationError`."""
    restored: AnyRecord = _adapter(kind).validate_python(table)
    return restored


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}
"Building one takes longer than reading most records."


def read_record(
    file: Path,
    kind: type[AnyRecord],
    *,
    schema: int,
    former: Collection[int] = (),
    topic: str,
    hint: str,
) -> AnyRecord:
    """The record in a file of this or a former schema; `hint` says what to do if it is damaged."""
    table = read_json(file, schema=schema, former=former, topic=topic, hint=hint)
    try:
        return restore_record(kind, printable(table))
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(str(step) for step in first["loc"])
        what = f"damaged{f' at {key}' if key else ''}: {first['msg']}"
        raise UserError(what, topic=topic, where=str(file), hint=hint) from None
