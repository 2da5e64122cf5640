"""Files that are either whole or not there: temporary name, fsync, rename, fsync of the folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core.errors import UserError

MANIFEST = "manifest.json"


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step; a reader sees the old text or the new, never half of it."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:  # Ctrl-C too: nothing half-written stays
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def sealed_folder(path: Path) -> Iterator[Path]:
    """A new folder whose manifest, written last, holds the SHA-256 of every file in it."""
    with new_folder(path) as inside:
        yield inside
        _seal(inside)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Fill a folder under a temporary name; on leaving, it takes its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    old = temporary.with_name(f"{temporary.name}.old")
    try:
        yield temporary
        temporary.chmod(0o755)
        if path.exists():
            path.rename(old)  # aside first: a kill in between loses nothing
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:  # Ctrl-C too: nothing half-written stays, what stood there does
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)


def damage(folder: Path) -> str | None:
    """What is wrong with a sealed folder, in words that name the file; None when it is whole."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        for name, expected in files.items():
            file = folder / name
            if not file.is_file():
                return f"{file} is missing"
            if sha256(file) != expected:
                return f"{file} does not match its manifest (damaged or edited)"
    except FileNotFoundError:
        return f"{folder / MANIFEST} is missing"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{folder / MANIFEST} is damaged"
    return None


def read_json(path: Path, *, schema: int) -> dict[str, Any]:
    """A JSON file of ours; damage and other versions are said in words."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing", topic="run") from None
    except (ValueError, UnicodeDecodeError) as problem:
        raise UserError(f"{path} is damaged: {problem}", topic="run") from None
    if not isinstance(value, dict) or value.get("schema") != schema:
        found = value.get("schema") if isinstance(value, dict) else None
        raise UserError(
            f"{path} has schema {found}, this regard reads schema {schema}",
            topic="run",
            hint="Use the version of regard that wrote it, or train again.",
        )
    return value


def _seal(folder: Path) -> None:
    digests = {}
    for file in sorted(folder.iterdir()):
        file.chmod(0o644)
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
        digests[file.name] = sha256(file)
    write_json(folder / MANIFEST, {"schema": 1, "files": digests})


def sha256(file: Path) -> str:
    """Of the file's content, in hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
