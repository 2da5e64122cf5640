"""The runs below a folder, each as a table of facts, and an index that spares reading them again.

    {"run": "mini-gpt", "state": "finished", "model.attention.kind": "dot", "dev.perplexity": 118.4}

Run folders are the only truth. `.index.json` keeps the facts of each folder beside time and size
of the files they come from; what changed is read again, what is gone is dropped, damaged and very
new runs are not kept, and an index that cannot be used is made anew. Links are not followed.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from regard.core.errors import UserError
from regard.core.files import write_text
from regard.core.toml import flatten, read_toml
from regard.runs.archive.read_run import SCHEMA as FIGURES_SCHEMA
from regard.runs.archive.read_run import printable, read_run
from regard.runs.archive.record import MODEL, AuditRecord, ResultsRecord, RunRecord

SCHEMA = 2
"Of the index; raised whenever the same folder would give other facts."
INDEX = ".index.json"
RECIPE = "recipe.toml"
STAMPED = (RECIPE, "figures.json", "events.jsonl")
DEEPEST = 5
"How many folders below the first a run may stand."
WITHIN_A_RUN = {"checkpoints", "final", "with"}
"Folders that belong to a run; nobody's run is looked for inside them."
TICK = 2_000_000_000
"Nanoseconds that the coarsest clock of a file system may stand still."
INVALID = "INVALID"

Facts: TypeAlias = dict[str, Any]
Stamp: TypeAlias = list[list[int] | None]
"Time (ns) and size of each file in STAMPED; None where it is not there."
OnProgress: TypeAlias = Callable[[int, int], None]


class RunState(StrEnum):
    FINISHED = "finished"
    UNFINISHED = "unfinished"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class ListedRun:
    """A run folder and what is known of it, by the keys that filters and sorting name."""

    folder: Path
    facts: Facts

    @property
    def name(self) -> str:
        """Its place below the folder that was searched."""
        return str(self.facts["run"])

    @property
    def state(self) -> RunState:
        return RunState(self.facts["state"])


def ignore(done: int, total: int) -> None:
    """The progress nobody watches."""


def list_runs(root: Path, *, on_progress: OnProgress = ignore) -> list[ListedRun]:
    """Every run below `root`, by name; `on_progress` hears of the folders that must be read."""
    now = time.time_ns()
    stamps = dict(find_runs(root))
    known = _read_index(root / INDEX)
    facts: dict[str, Facts] = {
        place: known[place][1]
        for place, stamp in stamps.items()
        if place in known and known[place][0] == stamp
    }
    changed = [place for place in stamps if place not in facts]
    for done, place in enumerate(changed):
        on_progress(done, len(changed))
        facts[place] = read_facts(root / place, place=place)
    # A damaged run may be mended by what no stamp tells: permissions, another version of regard.
    kept = {
        place: (stamp, facts[place])
        for place, stamp in stamps.items()
        if facts[place]["state"] != RunState.DAMAGED and _is_settled(stamp, now)
    }
    if kept != known:
        _write_index(root / INDEX, kept)
    return [ListedRun(root / place, facts[place]) for place in sorted(stamps, key=in_order)]


def in_order(name: str) -> list[tuple[int, str]]:
    """A sorting key that puts seed-2 before seed-10."""
    parts = re.split(r"\d+", name), (digits.lstrip("0") for digits in re.findall(r"\d+", name))
    return [
        key
        for word, digits in zip_longest(*parts, fillvalue="")
        for key in ((0, word), (len(digits), digits))
    ]


def find_runs(root: Path) -> Iterator[tuple[str, Stamp]]:
    """The place below `root` of every folder that holds a recipe.toml, and its stamp."""
    try:
        with os.scandir(root) as entries:
            folders = [(entry.path, entry.name) for entry in entries if _is_searched(entry)]
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            "there is no such folder",
            topic="runs",
            where=str(root),
            hint="`regard train` makes runs/ where it is started; --in FOLDER looks elsewhere.",
        ) from None
    while folders:
        path, place = folders.pop()
        files: dict[str, os.stat_result] = {}
        inner: list[tuple[str, str]] = []
        # Another process may delete what we are looking at, or forbid it: then it is not there.
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.name in STAMPED and entry.is_file():
                    files[entry.name] = entry.stat()
                elif _is_searched(entry):
                    inner.append((entry.path, f"{place}/{entry.name}"))
        if RECIPE in files:
            yield place, [_stamp(files.get(name)) for name in STAMPED]
            inner = [pair for pair in inner if pair[1].rpartition("/")[2] not in WITHIN_A_RUN]
        if place.count("/") + 1 < DEEPEST:
            folders += inner


def _is_searched(entry: os.DirEntry[str]) -> bool:
    # What is being made or deleted has a hidden name.
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _stamp(stat: os.stat_result | None) -> list[int] | None:
    return None if stat is None else [stat.st_mtime_ns, stat.st_size]


def _is_settled(stamp: Stamp, now: int) -> bool:
    """Whether a later change must show in the stamp; within a tick of the clock it need not."""
    return all(now - one[0] > TICK for one in stamp if one is not None)


def read_facts(folder: Path, *, place: str) -> Facts:
    """What one run folder says; where it cannot be read, the state is damaged and says why."""
    facts: Facts = {"run": printable(place)}
    try:
        # Through JSON, so that facts are the same whether they come from the folder or the index.
        table = json.dumps(flatten(read_toml(folder / RECIPE, topic="run").table), default=str)
        facts = {**printable(json.loads(table)), **facts}
        if (figures := _whole_figures(folder)) is not None:
            return {**facts, "state": RunState.FINISHED.value, **printable(_measured(figures))}
        return {**facts, "state": RunState.UNFINISHED.value, **_begun(read_run(folder))}
    except UserError as problem:
        why = str(problem)
    except OSError as problem:
        why = f"{problem.filename or folder} cannot be read ({problem.strerror})"
    except (ValueError, RecursionError) as problem:  # numbers too long, tables too deep
        why = f"{folder} holds what no run holds ({problem})"
    # An index is read from other working folders too: it names places below its own.
    why = printable(why.removeprefix("run: ").replace(str(folder), place))
    return {**facts, "state": RunState.DAMAGED.value, "why": why}


def _whole_figures(folder: Path) -> ResultsRecord | None:
    """The figures of a finished run, without its events, which take longer to read than all else.

    Where they are not whole there are none here: `read_run` says what is wrong with them.
    """
    try:
        table = json.loads((folder / "figures.json").read_bytes())
        return ResultsRecord.model_validate(table) if table["schema"] == FIGURES_SCHEMA else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _measured(figures: ResultsRecord) -> Facts:
    """The facts of a finished run."""
    cost = figures.cost.model_dump(exclude_none=True)
    facts: Facts = {f"cost.{key}": value for key, value in cost.items()}
    facts["finished"] = figures.finished
    facts["metric"] = figures.main
    for key in ("parameters", "steps"):
        if key in cost:
            facts[key] = cost[key]
    for figure in figures.figures:
        if figure.of == MODEL:
            key = f"{figure.part}.{figure.metric}"
            said = {"": figure.value, ".low": figure.low, ".high": figure.high, ".n": figure.n}
            facts |= {key + part: value for part, value in said.items() if value is not None}
    if figures.corpus is not None:
        for name, part in figures.corpus.splits.items():
            facts[f"{name}.fingerprint"] = part.fingerprint
    if figures.tokenizer is not None:
        facts["tokenizer.fingerprint"] = figures.tokenizer.fingerprint
    answers = figures.health.predictions if figures.health else None
    if answers is not None and answers.collapsed:
        facts["collapsed"] = answers.collapsed
    return facts | _audited(figures.audit)


def _begun(record: RunRecord) -> Facts:
    """The facts of a run that has not ended."""
    start = record.events.start
    told = {"parameters": start.parameters, "steps_planned": start.steps}
    facts: Facts = {key: value for key, value in told.items() if value is not None}
    facts["steps"] = record.events.last_step
    try:
        seen = json.loads((record.folder / "audit.json").read_bytes())
        return facts | _audited(AuditRecord.model_validate(printable(seen)))
    except (FileNotFoundError, ValueError):  # not audited yet, or by another version
        return facts


def _audited(audit: AuditRecord | None) -> Facts:
    if audit is None:
        return {}
    verdict = audit.verdict if audit.is_valid else INVALID
    return {"audit": verdict, "audit.sentence": "; ".join([audit.sentence, *audit.broken])}


def _read_index(file: Path) -> dict[str, tuple[Stamp, Facts]]:
    """What the index knows; nothing where it is not to be trusted."""
    try:
        table = json.loads(file.read_bytes())
        if table["schema"] != SCHEMA:
            return {}
        runs = {place: (stamp, facts) for place, (stamp, facts) in table["runs"].items()}
        for _, facts in runs.values():
            _ = facts["run"], RunState(facts["state"])
        return runs
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _write_index(file: Path, runs: dict[str, tuple[Stamp, Facts]]) -> None:
    # Where nothing can be written, the list is as true and only slower.
    with suppress(OSError):
        write_text(file, json.dumps({"schema": SCHEMA, "runs": runs}, separators=(",", ":")))
