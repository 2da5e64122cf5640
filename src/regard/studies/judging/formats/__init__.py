"""Files of items in every format that other tools write, read into `ItemTable`s."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.core.errors import UserError
from regard.data.readers.formats import is_known_format
from regard.evaluation.formatting import join_words, quantity
from regard.studies.judging.formats.arrays import read_npz
from regard.studies.judging.formats.inspect_logs import read_eval_log
from regard.studies.judging.formats.json_documents import read_json_document
from regard.studies.judging.formats.rows import read_rows
from regard.studies.judging.item_table import ItemTable

READERS: dict[str, Callable[[Path], ItemTable]] = {
    ".eval": read_eval_log,
    ".json": read_json_document,
    ".npz": read_npz,
}
"By suffix; all other known suffixes are tables of rows."
READABLE = "JSON lines, CSV, TSV, Parquet, a log of inspect-ai (.eval, .json) or arrays (.npz)"
LOGS = ("samples_*.jsonl", "*.eval")
"What lm-evaluation-harness and inspect-ai write into a folder, with one file for each task."


def read_item_file(path: Path) -> ItemTable:
    """The items of one file, or of the only log in a folder; the suffix decides the format."""
    file = _only_log(path) if path.is_dir() else path
    reader = READERS.get(file.suffix.lower(), read_rows)
    if reader is read_rows and not is_known_format(file):
        raise UserError(
            "not a file of items", topic="judge", where=str(file), hint=f"Give {READABLE}."
        )
    table = reader(file)
    if not len(table):
        raise table.error("no items", hint="Give a file with one row for each item.")
    return table


def _only_log(folder: Path) -> Path:
    found = sorted(file for pattern in LOGS for file in folder.rglob(pattern))
    if len(found) == 1:
        return found[0]
    if not found:
        what, hint = "a folder without a log of lm_eval or inspect", f"Give {READABLE}."
    else:
        shown = join_words([str(file.relative_to(folder)) for file in found[:3]])
        what = f"a folder with {quantity(len(found), 'logs')}, such as {shown}"
        hint = "Give one of these files: each task is judged alone."
    raise UserError(what, topic="judge", where=str(folder), hint=hint)
