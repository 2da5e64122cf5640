"""The optimizer's moments in a checkpoint: whole in one file, or each rank's rows in its own.

    optimizer.safetensors          of one process, or where every rank holds the whole model
    optimizer-00001-of-00004.safetensors …   optimizer.json      of ranks that share it

A file holds for each parameter `name|exp_avg` and `name|exp_avg_sq`, cut along the first dimension
in the order of `optimizer.json`, and `name|step`, which is the same in all. Who reads them may want
other rows than were saved together: another number of ranks, or one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.core.errors import UserError
from regard.core.json_records import JsonRecord, read_record, write_record
from regard.models.tensor_files import write_tensors

OPTIMIZER_FILE = "optimizer.safetensors"
INDEX_FILE = "optimizer.json"
INDEX_SCHEMA = 1


class MomentIndex(JsonRecord):
    """Which files hold the moments."""

    files: tuple[str, ...]
    "In the order of their rows."


def moment_files(checkpoint: Path) -> list[Path]:
    """Those of a checkpoint."""
    if not (checkpoint / INDEX_FILE).is_file():
        return [checkpoint / OPTIMIZER_FILE]
    index = read_record(
        checkpoint / INDEX_FILE, MomentIndex, schema=INDEX_SCHEMA, topic="run", hint="Delete it."
    )
    return [checkpoint / Path(name).name for name in index.files]


def write_moments(checkpoint: Path, moments: dict[str, Tensor], *, rank: int, size: int) -> None:
    """A rank's part of the moments; rank 0 writes the index too."""
    names = tuple(f"optimizer-{number + 1:05d}-of-{size:05d}.safetensors" for number in range(size))
    write_tensors(moments, checkpoint / names[rank])
    if rank == 0:
        write_record(checkpoint / INDEX_FILE, MomentIndex(files=names), schema=INDEX_SCHEMA)


class Moments:
    """The moments of a checkpoint, of which rows are read without the rest."""

    def __init__(self, files: list[Any]) -> None:
        self._files = files
        self.names: list[str] = list(files[0].keys())

    def read(self, name: str, rows: slice | None) -> Tensor:
        """All of a moment, or these rows of it; what has no dimension is not cut."""
        parts = [file.get_slice(name) for file in self._files]
        if not parts[0].get_shape():
            whole: Tensor = self._files[0].get_tensor(name)
            return whole
        found, begin = [], 0
        for part in parts:
            end = begin + part.get_shape()[0]
            first, last = (begin, end) if rows is None else (rows.start, rows.stop)
            if max(first, begin) < min(last, end):
                found.append(part[max(first, begin) - begin : min(last, end) - begin])
            begin = end
        return torch.cat(found) if found else parts[0][0:0]


@contextmanager
def open_moments(checkpoint: Path) -> Iterator[Moments]:
    with ExitStack() as stack:
        opened = []
        for file in moment_files(checkpoint):
            try:
                opened.append(stack.enter_context(safe_open(file, framework="pt")))
            except FileNotFoundError:
                raise UserError(f"{file} is missing", topic="model") from None
            except SafetensorError as problem:
                raise UserError(f"{file} is damaged: {problem}", topic="model") from None
        yield Moments(opened)
