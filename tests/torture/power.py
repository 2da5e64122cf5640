"""What a disk may hold after power is lost: all that was synced, and any part of the rest.

While a command runs, a `Recorder` writes down each change of a folder's entries (a name that comes,
goes, or is renamed) and the content of each file at its last fsync. A change is safe once its
folder was synced after it, a content once its file was. `lose_power` builds one of the disks that
this allows: any of the other changes may be missing, each for itself, and any of the other contents
may be old, short or zeros, as ALICE (Pillai et al., 2014) and CrashMonkey (Mohan et al., 2018) do.
A file system may write two changes out in any order unless a sync stands between them; which of
them are on the disk is all that a reader can see of that order.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = 0
Name = tuple[int, str]
"A folder, by its number, and a name in it."


@dataclass
class Change:
    """`goes` disappears and `comes` stands for `target`; a rename does both at once."""

    goes: Name | None
    comes: Name | None
    target: int
    synced: bool = False


@dataclass
class Content:
    """Of a file: a copy as of its last fsync (empty: none) and one of all that was written."""

    safe: str = ""
    last: str = ""


@dataclass
class Disk:
    """What was on it before, and what happened to it since."""

    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    "Entries of each folder when the recording began; files and folders are numbers."
    changes: list[Change] = field(default_factory=list)
    contents: dict[int, Content] = field(default_factory=dict)


class Recorder:
    """Of everything below `root`; copies of contents are kept in `store`."""

    def __init__(self, root: Path, store: Path) -> None:
        self.root, self.store = root, store
        self.disk = Disk()
        self._numbers: dict[int, int] = {root.stat().st_ino: ROOT}
        "By inode, of what exists now."
        self._live: dict[int, dict[str, int]] = {ROOT: {}}
        self._copies = 0
        self._last_number = ROOT
        self.guard = threading.RLock()
        self.find_new()
        # What was there before is on the disk.
        self.disk.folders = copy.deepcopy(self._live)
        self.disk.changes.clear()
        for path, number in self._files():
            self.disk.contents[number] = Content(copied := self._copy(path), copied)

    def write(self) -> None:
        """The moment at which power is lost."""
        self.find_new()
        for path, number in self._files():
            self.disk.contents[number].last = self._copy(path)
        table = asdict(self.disk)
        for key in ("folders", "contents"):  # JSON's keys are texts
            table[key] = list(table[key].items())
        (self.store / "disk.json").write_text(json.dumps(table), encoding="utf-8")

    def find_new(self) -> None:
        """Files and folders that were made since by other means than are recorded."""
        for path, folders, files in os.walk(self.root):
            above = self._numbers[Path(path).stat().st_ino]
            for name in (*folders, *files):
                if name not in self._live[above]:
                    with suppress(FileNotFoundError):  # of another thread
                        self._add(above, name, Path(path, name))

    def _add(self, above: int, name: str, path: Path) -> None:
        status = path.lstat()
        is_link = status.st_nlink > 1 and not path.is_dir() and status.st_ino in self._numbers
        if is_link:  # another name for what is there
            number = self._numbers[status.st_ino]
        else:
            number = self._last_number = self._last_number + 1
            self._numbers[status.st_ino] = number
            if path.is_dir():
                self._live[number] = {}
            else:
                self.disk.contents[number] = Content()
        self._live[above][name] = number
        self.disk.changes.append(Change(None, (above, name), number))

    @contextmanager
    def renaming(self, old: Path, new: Path) -> Iterator[None]:
        """Around a rename; one that fails has changed nothing."""
        self.find_new()
        (above, name), into = self._entry(old), self._entry(new)
        replaced = self._last(new)
        yield
        self._gone(replaced)
        number = self._live[above].pop(name)
        self._live[into[0]][into[1]] = number
        self.disk.changes.append(Change((above, name), into, number))

    @contextmanager
    def removing(self, path: Path) -> Iterator[None]:
        self.find_new()
        above, name = self._entry(path)
        removed = self._last(path)
        yield
        self._gone(removed)
        number = self._live[above].pop(name)
        self.disk.changes.append(Change((above, name), None, number))

    def after_fsync(self, descriptor: int) -> None:
        self.find_new()
        number = self._numbers.get(os.fstat(descriptor).st_ino)
        if number is None:
            return
        if number in self._live:
            for change in self.disk.changes:
                change.synced |= (change.comes or change.goes or (None,))[0] == number
        else:
            self.disk.contents[number].safe = self._copy(Path(f"/proc/self/fd/{descriptor}"))

    def _last(self, path: Path) -> tuple[int, str] | None:
        """The inode of what is about to go, and a copy of its content."""
        if not path.exists() or (path.is_file() and path.stat().st_nlink > 1):
            return None
        return path.stat().st_ino, self._copy(path) if path.is_file() else ""

    def _gone(self, last: tuple[int, str] | None) -> None:
        """The inode may be given to another file now."""
        if last is not None:
            inode, copied = last
            number = self._numbers.pop(inode)
            if copied:
                self.disk.contents[number].last = copied

    def _entry(self, path: Path) -> Name:
        return self._numbers[path.parent.stat().st_ino], path.name

    def _files(self) -> Iterator[tuple[Path, int]]:
        for path in self.root.rglob("*"):
            if path.is_file() and (number := self._numbers.get(path.stat().st_ino)) is not None:
                yield path, number

    def _copy(self, path: Path) -> str:
        self._copies += 1
        return str(shutil.copyfile(path, self.store / str(self._copies)))


@contextmanager
def recording(root: Path, store: Path) -> Iterator[Recorder]:
    recorder = Recorder(root, store)

    def inside(given: Any, folder: int | None = None) -> Path | None:
        above = Path.cwd() if folder is None else Path(f"/proc/self/fd/{folder}").readlink()
        path = above / os.fspath(given)
        path = path.parent.resolve() / path.name
        return path if path.is_relative_to(recorder.root) else None

    def fsync(descriptor: int, original: Callable[[int], None] = os.fsync) -> None:
        with recorder.guard:
            original(descriptor)
            recorder.after_fsync(descriptor)

    def renaming(original: Callable[..., None]) -> Callable[..., None]:
        def rename(old: Any, new: Any, **named: Any) -> None:
            source, target = inside(old), inside(new)
            with recorder.guard, ExitStack() as stack:
                if source is not None and target is not None and source.exists():
                    stack.enter_context(recorder.renaming(source, target))
                original(old, new, **named)

        return rename

    def removing(original: Callable[..., None]) -> Callable[..., None]:
        def remove(given: Any, *, dir_fd: int | None = None) -> None:
            path = inside(given, dir_fd)
            with recorder.guard, ExitStack() as stack:
                if path is not None and path.exists():
                    stack.enter_context(recorder.removing(path))
                original(given, dir_fd=dir_fd)

        return remove

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(os, "fsync", fsync))
        for name in ("rename", "replace"):
            changed = renaming(getattr(os, name))
            stack.enter_context(mock.patch.object(os, name, changed))
        for name in ("unlink", "remove", "rmdir"):
            changed = removing(getattr(os, name))
            stack.enter_context(mock.patch.object(os, name, changed))
        yield recorder


def lose_power(root: Path, store: Path, generator: random.Random) -> None:
    """Make `root` one of the disks that may be found afterwards."""
    disk = read_disk(store)
    unsynced = [change for change in disk.changes if not change.synced]
    kept = _chosen(unsynced, generator)
    for change in disk.changes:
        if change.synced or any(change is one for one in kept):
            _apply(change, disk.folders)
    shutil.rmtree(root)
    _build(ROOT, root, disk, generator)


def read_disk(store: Path) -> Disk:
    """As `Recorder.write` left it."""
    table = json.loads((store / "disk.json").read_text(encoding="utf-8"))
    changes = [
        Change(*(one[key] and (one[key][0], one[key][1]) for key in ("goes", "comes")),
               target=one["target"], synced=one["synced"])
        for one in table["changes"]
    ]  # fmt: skip
    contents = {number: Content(**one) for number, one in table["contents"]}
    return Disk(dict(table["folders"]), changes, contents)


def _chosen(unsynced: list[Change], generator: random.Random) -> list[Change]:
    """None, all, all but one, one alone, up to some moment, or any."""
    match generator.randrange(6) if unsynced else 0:
        case 0:
            return []
        case 1:
            return unsynced
        case 2:
            lost = generator.randrange(len(unsynced))
            return [one for number, one in enumerate(unsynced) if number != lost]
        case 3:
            return [generator.choice(unsynced)]
        case 4:
            return unsynced[: generator.randrange(len(unsynced))]
    return [one for one in unsynced if generator.random() < 0.5]


def _apply(change: Change, folders: dict[int, dict[str, int]]) -> None:
    if change.goes is not None:
        entries = folders.get(change.goes[0], {})
        if entries.get(change.goes[1]) == change.target:
            del entries[change.goes[1]]
    if change.comes is not None:
        folders.setdefault(change.comes[0], {})[change.comes[1]] = change.target


def _build(number: int, path: Path, disk: Disk, generator: random.Random) -> None:
    path.mkdir()
    for name, inner in disk.folders.get(number, {}).items():
        if inner in disk.contents:
            (path / name).write_bytes(_after_the_loss(disk.contents[inner], generator))
        else:
            _build(inner, path / name, disk, generator)


def _after_the_loss(content: Content, generator: random.Random) -> bytes:
    safe = Path(content.safe).read_bytes() if content.safe else b""
    last = Path(content.last).read_bytes() if content.last else safe
    if last == safe or generator.random() < 0.3:
        return last
    # What was appended is lost from some byte on; what was never synced may be zeros.
    kept = safe if not last.startswith(safe) else last[: generator.randint(len(safe), len(last))]
    zeroed = bytes(max(0, len(last) - len(kept))) if generator.random() < 0.3 else b""
    return kept + zeroed
