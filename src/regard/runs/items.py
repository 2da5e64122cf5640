"""What was measured of each single item, one JSON line each: figures can be checked and compared.

    items/dev.jsonl    {"item": 17, "nats": 83.2, "tokens": 21, "bytes": 96}

Two runs are compared item by item only where they were measured on the same ones, which the
fingerprint in figures.json tells.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import UserError
from regard.core.files import write_text
from regard.data.corpus import Split
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.perplexity import Losses


def write_items(folder: Path, items: Mapping[Split, Sequence[Row]]) -> None:
    """One file a part; `folder` is the run's."""
    (folder / "items").mkdir(exist_ok=True)
    for part, rows in items.items():
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        write_text(folder / "items" / f"{part}.jsonl", "\n".join(lines) + "\n")


def read_items(folder: str | Path, part: str) -> list[dict[str, Any]]:
    """The items of a part, as they were measured."""
    file = Path(folder) / "items" / f"{part}.jsonl"
    try:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    except FileNotFoundError:
        raise UserError(
            f"{file} is missing, so this run cannot be compared item by item",
            topic="run",
            hint="Train it again with this version.",
        ) from None
    except ValueError as problem:
        raise _damaged(file, problem) from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise _damaged(file, ValueError("a line is no object"))
    return rows


def _damaged(file: Path, problem: Exception) -> UserError:
    return UserError(f"{file} is damaged ({problem})", topic="run")


def rows_of(table: Losses) -> list[Row]:
    """Of the documents that a language model told."""
    columns = zip(table.nll.tolist(), table.tokens.tolist(), table.bytes.tolist(), strict=True)
    return [
        {"item": number, "nats": nats, "tokens": tokens, "bytes": size}
        for number, (nats, tokens, size) in enumerate(columns)
    ]


def table_of(rows: Sequence[Row]) -> Losses:
    """The inverse of `rows_of`."""
    nats = np.array([row["nats"] for row in rows], dtype=np.float64)
    tokens = np.array([row["tokens"] for row in rows], dtype=np.int64)
    size = np.array([row["bytes"] for row in rows], dtype=np.int64)
    return Losses(nll=nats, tokens=tokens, bytes=size, loss=nats / np.maximum(tokens, 1))


def fingerprints_of(part: str, tells: str, tokenizer: str, table: Losses) -> dict[str, str]:
    """`documents` is the same for two runs exactly if they were measured on the same documents,
    `told` if they also told the same tokens of them."""
    documents = [part, *map(str, table.bytes.tolist())]
    told = [*documents, tells, tokenizer, *map(str, table.tokens.tolist())]
    return {"documents": _hash(documents), "told": _hash(told)}


def _hash(facts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
