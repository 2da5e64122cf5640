"""Per-item results of a run, one JSON object a line, so that scores can be checked and compared.

    items/dev.jsonl    {"item": 17, "nats": 83.2, "tokens": 21, "bytes": 96, "group": null}

Two runs are compared item by item only if they were evaluated on the same items, which the
fingerprints in results.json show.
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
from regard.core.seal import check_sealed
from regard.core.untrusted import parse_json
from regard.data.corpus import Split
from regard.evaluation.metrics.metric import GROUP, Row, row_groups
from regard.evaluation.metrics.perplexity import Losses
from regard.runs.missing_run import missing_run


def write_items(folder: Path, items: Mapping[Split, Sequence[Row]]) -> None:
    """Write items/SPLIT.jsonl into the run folder for each split."""
    (folder / "items").mkdir(exist_ok=True)
    for split, rows in items.items():
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        write_text(folder / "items" / f"{split}.jsonl", "\n".join(lines) + "\n")


def read_items(folder: str | Path, split: str) -> list[dict[str, Any]]:
    """The items of a split as they were written."""
    file = Path(folder) / "items" / f"{split}.jsonl"
    hint = "Train the run again, or compare without it."
    check_sealed(Path(folder), f"items/{split}.jsonl", topic="run", hint=hint)
    try:
        rows = [parse_json(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    except FileNotFoundError:
        if not (Path(folder) / "recipe.toml").is_file():
            what = "is not a run" if Path(folder).exists() else "does not exist"
            raise missing_run(Path(folder), what) from None
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


def loss_rows(table: Losses, groups: Sequence[str | None]) -> list[Row]:
    """One row per document from a language model's losses, with the name of its group."""
    columns = zip(table.nll.tolist(), table.tokens.tolist(), table.bytes.tolist(), strict=True)
    return [
        {"item": number, "nats": nats, "tokens": tokens, "bytes": size, GROUP: group}
        for number, ((nats, tokens, size), group) in enumerate(zip(columns, groups, strict=True))
    ]


def loss_table(rows: Sequence[Row]) -> Losses:
    """The inverse of `loss_rows`."""
    nats = np.array([row["nats"] for row in rows], dtype=np.float64)
    tokens = np.array([row["tokens"] for row in rows], dtype=np.int64)
    size = np.array([row["bytes"] for row in rows], dtype=np.int64)
    return Losses(
        nll=nats,
        tokens=tokens,
        bytes=size,
        loss=nats / np.maximum(tokens, 1),
        groups=row_groups(rows),
    )


def item_fingerprints(split: str, objective: str, tokenizer: str, table: Losses) -> dict[str, str]:
    """`documents` is equal for two runs exactly if they were evaluated on the same documents,
    `scored` if the same tokens of them were scored too."""
    documents = [split, *map(str, table.bytes.tolist())]
    scored = [*documents, objective, tokenizer, *map(str, table.tokens.tolist())]
    return {"documents": hash_facts(documents), "scored": hash_facts(scored)}


def hash_facts(facts: Sequence[str]) -> str:
    """Short hash of some facts, in their order."""
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
