"""A training on a node: files arrive, a worker trains, checkpoints and the run folder travel back.

    <temporary folder>/regard-ray-<user>/<study>/files/<SHA-256>     what arrived, once per node
                                                slot-<id>/work/      a slot's working directory:
                                                                     links to files, the run folder

A slot is a process of Ray, which keeps one worker (`worker_process.py`): the same that trains on
one machine, so with the same bits. Where the process ends, for instance because its node is gone,
the worker ends too. This module runs in Ray's processes, and loads neither torch nor Ray.
"""

from __future__ import annotations

import atexit
import getpass
import os
import re
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from regard import __version__
from regard.core.errors import UserError
from regard.core.files import find_damage
from regard.runs.audit_cache.source_digest import python_digest
from regard.studies.engines.ray.folder_transfer import (
    FileEntry,
    Header,
    encode,
    link_or_copy,
    list_files,
    send_folder,
)
from regard.studies.engines.run_events import EVENTS_FILE, progress
from regard.studies.engines.worker_process import WorkerProcess

POLL_SECONDS = 0.2
PROGRESS_SECONDS = 5.0
"Between two messages that say the step: a driver may serve hundreds of trainings."
MAX_LOG_BYTES = 100_000
SLOT_LOCK, HOME_LOCK = "lock", ".lock"

Fetch = Callable[[Any], bytes]
"A chunk of a file, from its reference."
Contents = Mapping[str, Sequence[Any]]
"References to the chunks of each file, by its SHA-256."


def code_version() -> dict[str, str]:
    """What has to be the same on every node."""
    return {"version": __version__, "sources": python_digest()}


def train_on_node(
    spec: Header, contents: Contents, *, fetch: Fetch, is_stopped: Callable[[], bool]
) -> Iterator[bytes]:
    """Train what the study asks for; the messages that it gets back.

    {"kind": "unusable", "reason": …}    the node has another version of regard
    {"kind": "progress", "text": "step 120"}
    {"kind": "folder", …}, {"kind": "bytes"}    the run folder so far, and at the end
    {"kind": "end", "exit_code": 0, "log": …}
    """
    if code_version() != spec["code"]:
        here, there = __version__, spec["code"]["version"]
        differs = f"version {here}, not {there}" if here != there else "other source files"
        yield encode({"kind": "unusable", "reason": f"its regard has {differs}"})
        return
    try:
        yield from _slot(spec["study"]).train(spec, contents, fetch, is_stopped)
    except OSError as problem:
        where = f" ({problem.filename})" if problem.filename else ""
        text = f"disk: {problem.strerror or problem}{where}"
        yield encode({"kind": "end", "exit_code": 2, "log": text})


@dataclass
class NodeSlot:
    """A folder of this process, and its worker."""

    study: Path
    folder: Path
    lock: FileLock
    wake: threading.Event = field(default_factory=threading.Event)
    worker: WorkerProcess | None = None
    linked: dict[str, str] = field(default_factory=dict)
    "By name in the working directory, the SHA-256 of what stands there."

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def train(
        self, spec: Header, contents: Contents, fetch: Fetch, is_stopped: Callable[[], bool]
    ) -> Iterator[bytes]:
        self._provide([FileEntry(*row) for row in spec["files"]], contents, fetch)
        travels = not spec["shared"]
        run = self.work / spec["folder"]  # an absolute one stays as it is
        held = self._receive_run(run, spec["run"], contents, fetch) if travels else {}
        log = self.folder / "log"
        recipe = self.work / f"{spec['name']}.toml"  # paths of a recipe start beside it
        recipe.write_text(spec["recipe"], encoding="utf-8")
        log.write_bytes(b"")
        worker = self._free_worker()
        worker.train(
            Path(spec["folder"]),
            recipe=Path(recipe.name),
            log=log,
            user_files=[Path(name) for name in spec["own_files"]],
            expected=spec["expected"],
        )
        said, said_at = "", 0.0
        while (exit_code := worker.poll()) is None:
            self.wake.wait(POLL_SECONDS)
            self.wake.clear()
            if is_stopped():
                worker.request_stop()
            if travels and (view := self._checkpointed(run, held)) is not None:
                files = list_files(view)
                yield from send_folder(view, files, held=held)
                held = {file.name: file.sha256 for file in files}
                shutil.rmtree(view, ignore_errors=True)
            if time.monotonic() > said_at + PROGRESS_SECONDS and (text := progress(run)) != said:
                said, said_at = text, time.monotonic()
                yield encode({"kind": "progress", "text": text})
        if travels and run.is_dir():
            yield from send_folder(run, list_files(run), held=held)
        text = log.read_bytes()[-MAX_LOG_BYTES:].decode(errors="replace")
        if not text.strip():
            text = worker.log.read_bytes()[-MAX_LOG_BYTES:].decode(errors="replace")
        yield encode({"kind": "end", "exit_code": exit_code, "log": text})
        if travels:
            shutil.rmtree(run, ignore_errors=True)

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.lock.release()

    def _free_worker(self) -> WorkerProcess:
        if self.worker is None or not self.worker.is_free:
            log = self.folder / "worker.log"
            options = ("--abandon", str(self.folder))
            self.worker = WorkerProcess(log, wake=self.wake, options=options, cwd=self.work)
        return self.worker

    def _provide(self, files: Sequence[FileEntry], contents: Contents, fetch: Fetch) -> None:
        """Make the working directory have these files."""
        for file in files:
            if self.linked.get(file.name) == file.sha256:
                continue
            target = self.work / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            link_or_copy(self._arrived(file.sha256, contents, fetch), target)
            self.linked[file.name] = file.sha256

    def _arrived(self, digest: str, contents: Contents, fetch: Fetch) -> Path:
        """The file of this content, fetched once per node."""
        file = self.study / "files" / digest
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, contents[digest], fetch)
        return file

    def _receive_run(
        self, run: Path, rows: Sequence[Sequence[Any]], contents: Contents, fetch: Fetch
    ) -> dict[str, str]:
        """The run folder of an interrupted training; by name, what the driver has of it."""
        shutil.rmtree(run, ignore_errors=True)
        run.parent.mkdir(parents=True, exist_ok=True)
        held = {}
        for file in (FileEntry(*row) for row in rows):
            target = run / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(target, contents[file.sha256], fetch)
            held[file.name] = file.sha256
        return held

    def _checkpointed(self, run: Path, held: Mapping[str, str]) -> Path | None:
        """The run as it is, with a checkpoint that the driver has not; None without such a one.

        Links, for the training goes on and may delete a checkpoint meanwhile."""
        folders = sorted((run / "checkpoints").glob("step-*"))
        if not folders or f"checkpoints/{folders[-1].name}/manifest.json" in held:
            return None
        view = self.folder / "view"
        shutil.rmtree(view, ignore_errors=True)
        with suppress(FileNotFoundError):  # deleted just now: a newer one is there, or soon is
            for file in sorted(run.rglob("*")):
                name = file.relative_to(run)
                if not file.is_file() or any(part.startswith(".") for part in name.parts):
                    continue
                (view / name).parent.mkdir(parents=True, exist_ok=True)
                if name.parts[0] == "checkpoints":
                    link_or_copy(file, view / name)
                elif name.as_posix() == EVENTS_FILE:  # grows
                    whole, newline, _ = file.read_bytes().rpartition(b"\n")
                    (view / name).write_bytes(whole + newline)
                else:
                    shutil.copyfile(file, view / name)
            for checkpoint in (view / "checkpoints").iterdir():
                if find_damage(checkpoint) is not None:
                    shutil.rmtree(checkpoint)
            if (view / "checkpoints" / folders[-1].name).is_dir():
                return view
        return None


_slots: dict[str, NodeSlot] = {}


def _slot(study: str) -> NodeSlot:
    """This process's slot for a study."""
    if study not in _slots:
        home = _home()
        with FileLock(home / HOME_LOCK):  # nobody takes a new folder for an abandoned one
            _remove_abandoned(home, keep=study)
            folder = home / study / f"slot-{uuid.uuid4().hex[:12]}"
            (folder / "work").mkdir(parents=True)
            lock = FileLock(folder / SLOT_LOCK)
            lock.acquire()
        _slots[study] = NodeSlot(home / study, folder, lock)
        atexit.register(_slots[study].close)
    return _slots[study]


def _home() -> Path:
    """A folder of this user alone."""
    user = re.sub(r"[^A-Za-z0-9]", "-", getpass.getuser())
    home = Path(tempfile.gettempdir()) / f"regard-ray-{user}"
    home.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and home.stat().st_uid != os.getuid():
        raise UserError(f"{home} belongs to another user", topic="study", hint="Set TMPDIR there.")
    return home


def _remove_abandoned(home: Path, *, keep: str) -> None:
    """Folders of processes that were killed, and files of studies that nobody trains any more."""
    for study in (path for path in home.iterdir() if path.is_dir()):
        alive = False
        for slot in study.glob("slot-*"):
            try:
                with FileLock(slot / SLOT_LOCK, timeout=0):
                    pass
            except (Timeout, OSError):
                alive = True
            else:
                shutil.rmtree(slot, ignore_errors=True)
        if not alive and study.name != keep:
            shutil.rmtree(study, ignore_errors=True)


def _write(file: Path, references: Sequence[Any], fetch: Fetch) -> None:
    """From its chunks; whole under its name, or not at all."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as opened:
            for reference in references:
                opened.write(fetch(reference))
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
