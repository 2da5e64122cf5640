"""Folder transfer: a folder as a sequence of messages, and a folder again, whole or not at all.

    {"kind": "folder", "files": [["final/model.safetensors", 81920, "9f2c…", true], …]}
    {"kind": "bytes"} + payload        the files that travel, one after another, in chunks

A file that the other side has already is listed and does not travel. Messages are a line of JSON
and bytes; the receiver checks size and SHA-256, and the folder appears under its name at the
end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from regard.core.files import atomic_folder, sha256

CHUNK_BYTES = 4 << 20
"Of one message."

Header = Mapping[str, Any]


class TransferError(Exception):
    """What arrived is not what was announced."""


class FileEntry(NamedTuple):
    """A file of a folder, whose name has slashes on every system."""

    name: str
    size: int
    sha256: str

    @property
    def path(self) -> Path:
        """Its name, as a path that stays inside its folder."""
        pure = PurePosixPath(self.name)
        if pure.is_absolute() or not pure.parts or ".." in pure.parts or "\\" in self.name:
            raise TransferError(f"{self.name!r} is no file inside a folder")
        return Path(*pure.parts)


def encode(header: Header, payload: bytes = b"") -> bytes:
    return json.dumps(header).encode() + b"\n" + payload


def decode(message: bytes) -> tuple[Header, bytes]:
    line, _, payload = message.partition(b"\n")
    return json.loads(line), payload


def list_files(folder: Path) -> list[FileEntry]:
    """Every file below a folder; those of writes that are not finished begin with a dot."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            found.append(FileEntry(name.as_posix(), path.stat().st_size, sha256(path)))
    return found


def chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK_BYTES):
            yield chunk


def send_folder(
    folder: Path, files: Iterable[FileEntry], *, held: Mapping[str, str]
) -> Iterator[bytes]:
    """The messages of a folder; `held`: by name, the SHA-256 of what the other side has."""
    listed = [(file, held.get(file.name) != file.sha256) for file in files]
    yield encode({"kind": "folder", "files": [[*file, travels] for file, travels in listed]})
    for file, travels in listed:
        if travels:
            for chunk in chunks(folder / file.path):
                yield encode({"kind": "bytes"}, chunk)


@dataclass
class _OpenFile:
    entry: FileEntry
    left: int
    digest: Any


class FolderReceiver:
    """Builds a folder from its messages, beside the one that it replaces."""

    def __init__(self, folder: Path, header: Header) -> None:
        self._folder = folder
        listed = [(FileEntry(*row[:3]), bool(row[3])) for row in header["files"]]
        self._left = [entry for entry, travels in listed if travels]
        self._stack = ExitStack()
        self.inside = self._stack.enter_context(atomic_folder(folder))
        self._open: _OpenFile | None = None
        try:
            for entry, travels in listed:
                target = self.inside / entry.path
                target.parent.mkdir(parents=True, exist_ok=True)
                if not travels and not (folder / entry.path).is_file():
                    raise TransferError(f"{entry.name} is not here any more")
                if not travels:
                    link_or_copy(folder / entry.path, target)
            self._skip_empty_files()
        except BaseException:
            self.abandon()
            raise

    @property
    def is_complete(self) -> bool:
        return not self._left

    def take(self, payload: bytes) -> None:
        """The next chunk."""
        try:
            entry = self._left[0]
            if self._open is None:
                self._open = _OpenFile(entry, entry.size, hashlib.sha256())
            with (self.inside / entry.path).open("ab") as file:
                file.write(payload)
                self._open.left -= len(payload)
                self._open.digest.update(payload)
                if self._open.left <= 0:
                    file.flush()
                    os.fsync(file.fileno())
            if self._open.left > 0:
                return
            if self._open.left or self._open.digest.hexdigest() != entry.sha256:
                raise TransferError(f"{entry.name} is not what was sent")
            self._open = None
            self._left.pop(0)
            self._skip_empty_files()
        except BaseException:
            self.abandon()
            raise

    def commit(self) -> None:
        """Replace the folder; what was there before goes."""
        self._stack.close()

    def abandon(self) -> None:
        """Leave the folder as it was."""
        with suppress(TransferError):
            self._stack.__exit__(TransferError, TransferError("abandoned"), None)

    def _skip_empty_files(self) -> None:
        while self._left and not self._left[0].size:
            (self.inside / self._left.pop(0).path).touch()


def link_or_copy(file: Path, target: Path) -> None:
    """The same content under another name; where the file system has no links, a copy."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def restore_interrupted(folder: Path) -> None:
    """Undo what a kill in the middle of a transfer left beside a folder."""
    for leftover in sorted(folder.parent.glob(f".{folder.name}.*")):
        if not leftover.is_dir():
            continue  # a lock
        if leftover.suffix == ".old" and not folder.exists():
            leftover.rename(folder)
        else:
            shutil.rmtree(leftover, ignore_errors=True)
