"""Rows in memory as records: dictionaries, or a data frame of any library.

A data frame is read through Arrow (`__arrow_c_stream__`) or the data frame protocol
(`__dataframe__`), so that none of these libraries is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regard.core.errors import UserError
from regard.data.readers.records import RawRow, Record, RecordReader, missing_column_error


def is_frame(rows: object) -> bool:
    """Whether this is a table with named columns."""
    has_columns = hasattr(rows, "columns") or hasattr(rows, "column_names")
    return hasattr(rows, "__dataframe__") or (has_columns and hasattr(rows, "__arrow_c_stream__"))


def frame_rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a data frame as dictionaries."""
    import pyarrow as pa
    from pyarrow.interchange import from_dataframe

    try:
        has_arrow = hasattr(frame, "__arrow_c_stream__")
        table = pa.table(frame) if has_arrow else from_dataframe(frame)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError, RuntimeError) as problem:
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise UserError(
            f"Arrow cannot read this data frame ({first})",
            topic="data",
            hint="Give a list of dictionaries: frame.to_dict(orient='records').",
        ) from None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def read_rows(rows: Iterable[Mapping[str, Any]], reader: RecordReader) -> Iterator[Record]:
    """The records of dictionaries by column name."""
    return reader.records(_raw_rows(rows, reader))


def _raw_rows(rows: Iterable[Mapping[str, Any]], reader: RecordReader) -> Iterator[RawRow]:
    columns = reader.options.columns or {}
    for number, row in enumerate(rows, start=1):
        at = f"row {number:,}"
        for column in columns.values():
            if column.name not in row and not column.optional:
                raise missing_column_error(reader.name, "column", list(row), column, at=at)
        yield RawRow(at, {role: row.get(column.name) for role, column in columns.items()})
