"""What the page shows: the runs and studies below one folder, by ids that stand for nothing else.

A browser never names a path. An id is a digest of a name, and only ids of folders that were found
are known, so there is nothing that could lead elsewhere. Links are not followed when folders are
searched.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from regard.core.errors import UserError
from regard.core.printable import printable
from regard.runs.archive.index import ListedRun, RunIndex, find_runs
from regard.studies.outcome import OUTCOME_FILE

STUDY_FILES = ("study.toml", OUTCOME_FILE)
MAX_STUDY_DEPTH = 4
MIN_SECONDS = 0.5
"Between two searches."
BUSY_FRACTION = 0.1
"Of the time that searching may take."
PATIENCE = 0.3
"Seconds that a page waits for the first search: thousands of folders take longer to read."


class NotFoundError(UserError):
    """No run or study has this id."""


@dataclass(frozen=True)
class ListedStudy:
    """The folder of a study, or of results that were judged."""

    id: str
    name: str
    "Its path below the root."
    folder: Path
    changed: float
    "When something in it last changed, seconds since 1970."
    is_judged: bool
    "Whether there is an outcome."


def id_of(name: str) -> str:
    """The id of a run or a study, by its path below the root."""
    return blake2b(name.encode(errors="surrogateescape"), digest_size=8).hexdigest()


class Listing:
    """Runs and studies below `root`, searched again when they are asked for, but never all the
    time: 5,000 folders take a tenth of a second."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._index = RunIndex.stored(root)
        self._lock = threading.Lock()
        self._runs: dict[str, ListedRun] = {}
        self._studies: dict[str, ListedStudy] = {}
        self._next = 0.0
        self._first = threading.Event()
        self._began = False
        self.read, self.of = 0, 0
        "How many folders have been read, of how many, until the first search has ended."

    @property
    def is_reading(self) -> bool:
        """Whether the first search goes on: until then only studies are known."""
        return not self._first.is_set()

    def start(self) -> None:
        """Begin the first search; pages do not wait for it."""
        with self._lock:
            if not self._began:
                self._began = True
                threading.Thread(target=self._read_first, daemon=True).start()

    def runs(self) -> dict[str, ListedRun]:
        """By id, in order of their names."""
        self._refresh()
        return self._runs

    def studies(self) -> dict[str, ListedStudy]:
        """By id, the one that changed last first."""
        self._refresh()
        return self._studies

    def run(self, id: str) -> ListedRun:
        if id not in self._runs:
            self._refresh()
        try:
            return self._runs[id]
        except KeyError:
            raise NotFoundError("there is no such run any more", topic="page") from None

    def study(self, id: str) -> ListedStudy:
        if id not in self._studies:
            self._refresh()
        try:
            return self._studies[id]
        except KeyError:
            raise NotFoundError("there is no such study any more", topic="page") from None

    def study_of(self, run: ListedRun) -> ListedStudy | None:
        """The study that a run belongs to."""
        above = (study for study in self._studies.values() if study.folder in run.folder.parents)
        return max(above, key=lambda study: len(study.name), default=None)

    def forget(self) -> None:
        """Search again at the next question: something was deleted."""
        self._next = 0.0

    def _read_first(self) -> None:
        try:
            self._search()
        finally:
            self._first.set()

    def _refresh(self) -> None:
        self.start()
        if not self._first.wait(PATIENCE):
            return
        with self._lock:
            if time.monotonic() >= self._next:
                self._search()

    def _search(self) -> None:
        began = time.monotonic()
        studies = sorted(_find_studies(self.root), key=lambda one: (-one.changed, one.name))
        self._studies = {one.id: one for one in studies}
        runs = self._index.read(on_progress=self._progress)
        self._runs = {id_of(_below(run.folder, self.root)): run for run in runs}
        ended = time.monotonic()
        self._next = ended + max(MIN_SECONDS, (ended - began) / BUSY_FRACTION)

    def _progress(self, done: int, total: int | None = None) -> None:
        self.read, self.of = done, total or 0


def stamp(folder: Path) -> str:
    """A digest of everything that is read of a study's folder, or of all runs below one: it changes
    when they do."""
    seen = [repr(sorted(find_runs(folder)))]
    for name in (*STUDY_FILES, "plan.json", "recipe.toml", "results.json", "events.jsonl"):
        try:
            status = (folder / name).stat()
            seen.append(f"{name} {status.st_mtime_ns} {status.st_size}")
        except OSError:
            continue
    return blake2b("\n".join(seen).encode(errors="surrogateescape"), digest_size=8).hexdigest()


def _find_studies(root: Path) -> Iterator[ListedStudy]:
    folders = [(root, "", 0)]
    while folders:
        folder, name, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                inside = {entry.name: entry for entry in entries if not entry.name.startswith(".")}
        except OSError:  # deleted meanwhile, or not ours to read
            continue
        files = {one for one in (*STUDY_FILES, "recipe.toml") if one in inside}
        if name and files & {*STUDY_FILES}:
            changed = [inside[one].stat().st_mtime for one in files]
            changed += [one.stat().st_mtime for one in inside.values()]
            is_judged = OUTCOME_FILE in files
            shown = str(printable(name))
            yield ListedStudy(id_of(name), shown, folder, max(changed), is_judged)
        elif "recipe.toml" not in files and depth < MAX_STUDY_DEPTH:
            folders += [
                (Path(entry.path), f"{name}/{entry.name}".lstrip("/"), depth + 1)
                for entry in inside.values()
                if entry.is_dir(follow_symlinks=False)
            ]


def _below(folder: Path, root: Path) -> str:
    return folder.relative_to(root).as_posix()
