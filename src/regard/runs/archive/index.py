"""List the runs below a folder, each as a table of facts, with an index that caches them.

    {"run": "mini-gpt", "state": "finished", "model.attention.kind": "dot", "dev.perplexity": 118.4}

Run folders are the only source. `.index.json` caches the facts of each folder with modification
time and size of its files, under a checksum: changed folders are read again, missing ones dropped,
damaged and very recent ones not cached, and a damaged index is rebuilt. Links are not followed.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from regard.core.errors import UserError
from regard.core.files import write_text
from regard.core.printable import printable
from regard.core.progress import OnProgress, no_progress
from regard.core.seal import check_sealed, checksum
from regard.core.toml import flatten, read_toml
from regard.core.untrusted import parse_json
from regard.runs.archive.read_run import read_run
from regard.runs.archive.record import RunRecord
from regard.runs.results import MODEL, AuditRecord, ResultsRecord, read_audit, read_results

SCHEMA = 4
"Schema of the index; raised whenever the same folder would give other facts."
INDEX = ".index.json"
RECIPE = "recipe.toml"
STAMPED = (RECIPE, "results.json", "events.jsonl")
MAX_DEPTH = 5
"Levels below the root at which runs are found."
RUN_SUBFOLDERS = {"checkpoints", "final", "with"}
"Folders of a run; they are not searched for other runs."
CLOCK_RESOLUTION = 2_000_000_000
"Of the coarsest file system timestamps (FAT), in nanoseconds."
INVALID = "INVALID"

Facts: TypeAlias = dict[str, Any]
Stamp: TypeAlias = list[list[int] | None]
"Modification time (ns) and size of each file in STAMPED; None if it does not exist."
Entries: TypeAlias = dict[str, tuple[Stamp, Facts]]
"By path below the root."


class RunState(StrEnum):
    FINISHED = "finished"
    UNFINISHED = "unfinished"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class ListedRun:
    """A run folder and its facts, by the keys that filters and sorting use."""

    folder: Path
    facts: Facts

    @property
    def name(self) -> str:
        """Its path below the root."""
        return str(self.facts["run"])

    @property
    def state(self) -> RunState:
        return RunState(self.facts["state"])


class RunIndex:
    """The runs below a folder as they are at each call of `read`; facts of folders that have not
    changed since are kept in memory, and nothing is written."""

    def __init__(self, root: Path, entries: Entries) -> None:
        self.root, self.entries = root, entries

    @classmethod
    def stored(cls, root: Path) -> RunIndex:
        """With what the index file of `root` has."""
        return cls(root, _read_index(root / INDEX))

    def read(self, *, on_progress: OnProgress = no_progress) -> list[ListedRun]:
        """Every run, by name; `on_progress` counts the folders that must be read."""
        now = time.time_ns()
        stamps = dict(find_runs(self.root))
        facts: dict[str, Facts] = {
            name: self.entries[name][1]
            for name, stamp in stamps.items()
            if name in self.entries and self.entries[name][0] == stamp
        }
        changed = [name for name in stamps if name not in facts]
        for done, name in enumerate(changed):
            on_progress(done, len(changed))
            facts[name] = read_facts(self.root / name, name=name)
        # A damaged run may be repaired without a change of its stamp: permissions, another version.
        self.entries = {
            name: (stamp, facts[name])
            for name, stamp in stamps.items()
            if facts[name]["state"] != RunState.DAMAGED and _is_settled(stamp, now)
        }
        names = sorted(stamps, key=natural_sort_key)
        return [ListedRun(self.root / name, facts[name]) for name in names]


def list_runs(root: Path, *, on_progress: OnProgress = no_progress) -> list[ListedRun]:
    """Every run below `root`, by name, with the index file brought up to date."""
    index = RunIndex.stored(root)
    before = index.entries
    runs = index.read(on_progress=on_progress)
    if index.entries != before:
        _write_index(root / INDEX, index.entries)
    return runs


def natural_sort_key(name: str) -> list[tuple[int, str]]:
    """A sort key that puts seed-2 before seed-10."""
    parts = re.split(r"\d+", name), (digits.lstrip("0") for digits in re.findall(r"\d+", name))
    return [
        key
        for word, digits in zip_longest(*parts, fillvalue="")
        for key in ((0, word), (len(digits), digits))
    ]


def find_runs(root: Path) -> Iterator[tuple[str, Stamp]]:
    """Path below `root` and stamp of every folder that has a recipe.toml."""
    try:
        with os.scandir(root) as entries:
            folders = [(entry.path, entry.name) for entry in entries if _is_searched(entry)]
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            "there is no such folder",
            topic="runs",
            where=str(root),
            hint="`regard train` creates runs/ in the working folder; else give --in FOLDER.",
        ) from None
    while folders:
        path, name = folders.pop()
        files: dict[str, os.stat_result] = {}
        inner: list[tuple[str, str]] = []
        # Another process may delete a folder meanwhile, or forbid reading it: then it is skipped.
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.name in STAMPED and entry.is_file():
                    files[entry.name] = entry.stat()
                elif _is_searched(entry):
                    inner.append((entry.path, f"{name}/{entry.name}"))
        if RECIPE in files:
            yield name, [_stamp(files.get(file)) for file in STAMPED]
            inner = [pair for pair in inner if pair[1].rpartition("/")[2] not in RUN_SUBFOLDERS]
        if name.count("/") + 1 < MAX_DEPTH:
            folders += inner


def _is_searched(entry: os.DirEntry[str]) -> bool:
    # Folders being created or deleted have a hidden name.
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _stamp(stat: os.stat_result | None) -> list[int] | None:
    return None if stat is None else [stat.st_mtime_ns, stat.st_size]


def _is_settled(stamp: Stamp, now: int) -> bool:
    """Whether a later change must show in the stamp: files are older than the clock resolution."""
    return all(now - one[0] > CLOCK_RESOLUTION for one in stamp if one is not None)


def read_facts(folder: Path, *, name: str) -> Facts:
    """Facts of one run folder; if it cannot be read, its state is damaged and `why` says why."""
    facts: Facts = {"run": printable(name)}
    try:
        check_sealed(folder, RECIPE, topic="run", hint="Put the old file back.")
        # Through JSON, so that facts from the folder equal those from the index.
        table = json.dumps(flatten(read_toml(folder / RECIPE, topic="run").table), default=str)
        facts = {**printable(json.loads(table)), **facts}
        # Not the whole run: events take longest to read.
        if (results := read_results(folder / "results.json")) is not None:
            return {**facts, "state": RunState.FINISHED.value, **_results_facts(results)}
        return {**facts, "state": RunState.UNFINISHED.value, **_unfinished_facts(read_run(folder))}
    except UserError as problem:
        why = str(problem)
    except OSError as problem:
        why = f"{problem.filename or folder} cannot be read ({problem.strerror})"
    except (ValueError, RecursionError) as problem:  # numbers too long, tables too deep
        why = f"{folder} cannot be the folder of a run ({problem})"
    # The index is used from other working folders too: name the path below its root.
    why = printable(why.removeprefix("run: ").replace(str(folder), name))
    return {**facts, "state": RunState.DAMAGED.value, "why": why}


def _results_facts(results: ResultsRecord) -> Facts:
    """Facts of a finished run."""
    cost = results.cost.model_dump(exclude_none=True)
    facts: Facts = {f"cost.{key}": value for key, value in cost.items()}
    facts["finished"] = results.finished
    facts["metric"] = results.main
    for key in ("parameters", "steps"):
        if key in cost:
            facts[key] = cost[key]
    for row in results.estimates:
        if row.of == MODEL:
            key = f"{row.split}.{row.metric}"
            values = {"": row.value, ".low": row.low, ".high": row.high, ".n": row.n}
            facts |= {key + end: value for end, value in values.items() if value is not None}
    if results.corpus is not None:
        for name, split in results.corpus.splits.items():
            facts[f"{name}.fingerprint"] = split.fingerprint
    if results.tokenizer is not None:
        facts["tokenizer.fingerprint"] = results.tokenizer.fingerprint
    predictions = results.health.predictions if results.health else None
    if predictions is not None and predictions.collapsed:
        facts["collapsed"] = predictions.collapsed
    return facts | _audit_facts(results.audit)


def _unfinished_facts(record: RunRecord) -> Facts:
    """Facts of a run that is not finished."""
    start = record.events.start
    planned = {"parameters": start.parameters, "steps_planned": start.steps}
    facts: Facts = {key: value for key, value in planned.items() if value is not None}
    facts["steps"] = record.events.last_step
    with suppress(UserError):  # of another version, or damaged
        return facts | _audit_facts(read_audit(record.folder / "audit.json"))
    return facts


def _audit_facts(audit: AuditRecord | None) -> Facts:
    if audit is None:
        return {}
    verdict = audit.verdict if audit.is_valid else INVALID
    return {"audit": verdict, "audit.sentence": "; ".join([audit.sentence, *audit.broken])}


def _read_index(file: Path) -> Entries:
    """The cached facts; empty if the index cannot be used."""
    try:
        table = parse_json(file.read_bytes())
        if table["schema"] != SCHEMA or table["checksum"] != checksum(table["runs"]):
            return {}
        runs = {name: (stamp, facts) for name, (stamp, facts) in table["runs"].items()}
        for _, facts in runs.values():
            _ = facts["run"], RunState(facts["state"])
        return runs
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write_index(file: Path, runs: Entries) -> None:
    # Without write permission the list is the same, only slower.
    with suppress(OSError):
        table = {"schema": SCHEMA, "checksum": checksum(runs), "runs": runs}
        write_text(file, json.dumps(table, separators=(",", ":")))
