"""Atomic writes: temporary name, fsync, rename, fsync of the folder; manifests with SHA-256."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.untrusted import parse_json, read_limited, shorten

MANIFEST = "manifest.json"


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically; a reader sees the old text or the new one, never half of it."""
    try:
        _replace(path, text.encode())
    except FileNotFoundError:
        if path.parent.is_dir():
            raise
        # Another process has deleted it meanwhile.
        raise UserError(f"{path.parent} does not exist any more", where=str(path)) from None


def check_output(target: Path, *, topic: str) -> None:
    """Refuse a folder where a user is to name a file."""
    if target.is_dir():
        raise UserError("is a folder", topic=topic, where=str(target), hint="Name a file.")


def write_output(
    target: Path, content: str | bytes, *, topic: str = "output", creates_folder: bool = True
) -> None:
    """A file that the user named; `creates_folder` not for a run's own folder: one that was deleted
    meanwhile must not come back."""
    check_output(target, topic=topic)
    try:
        if creates_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            write_text(target, content)
        else:
            _replace(target, content)
    except (PermissionError, FileExistsError, NotADirectoryError) as problem:
        raise UserError(
            f"cannot be written ({problem.strerror})",
            topic=topic,
            where=str(target),
            hint="Choose another path with --out FILE.",
        ) from None


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:  # Ctrl-C too: nothing half-written stays
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


@contextmanager
def folder_with_manifest(path: Path) -> Iterator[Path]:
    """`atomic_folder` plus a manifest, written last, with the SHA-256 of every file in it."""
    with atomic_folder(path) as inside:
        yield inside
        _write_manifest(inside)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `path` on exit and replaces what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    old = temporary.with_name(f"{temporary.name}.old")
    try:
        yield temporary
        temporary.chmod(0o755)
        if path.exists():
            path.rename(old)  # moved away first: a kill in between loses nothing
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:  # Ctrl-C too: the half-written folder goes, the old one stays
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)


def find_damage(folder: Path) -> str | None:
    """The first file that disagrees with the manifest, as a sentence; None if all agree."""
    try:
        files = parse_json(read_limited(folder / MANIFEST))["files"]
        for name, expected in files.items():
            if Path(name).name != name:
                return f"{folder / MANIFEST} is damaged: {shorten(name)} is no file beside it"
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


def typed_path(text: str) -> Path:
    """A path as a person typed it: `~` is the home folder, `~nobody` a name like any other."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 — Path.expanduser raises for nobody


def path_text(path: str | Path) -> str:
    """A path as a file holds it: in UTF-8, whatever the terminal's encoding (`LC_ALL=C`)."""
    return os.fsencode(path).decode("utf-8", "replace")


def text_path(text: str) -> Path:
    """The inverse of `path_text`."""
    return Path(os.fsdecode(text.encode()))


def read_text(path: Path, *, topic: str, hint: str = "") -> str:
    """A text file that the user named; `hint` says what to give instead."""
    try:
        return read_limited(path).decode("utf-8-sig")  # some editors write a byte order mark
    except FileNotFoundError:
        what = "does not exist"
    except UnicodeDecodeError as problem:
        what = "is not text in UTF-8"
        if _is_utf16(problem.object):
            what, hint = "is written in UTF-16", "Save it as UTF-8."
    except ValueError as problem:
        what = f"is {problem}"
    except OSError as problem:
        what = f"cannot be read ({problem.strerror})"
    raise UserError(f"{path} {what}", topic=topic, hint=hint)


def _is_utf16(content: bytes) -> bool:
    """Whether it begins with the mark, and is what it says."""
    if not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    with suppress(UnicodeDecodeError):
        return bool(content.decode("utf-16"))
    return False


def read_json(
    path: Path,
    *,
    schema: int,
    former: Collection[int] = (),
    topic: str = "run",
    hint: str = "",
) -> dict[str, Any]:
    """A JSON file written by regard; `hint` says what to do if it is damaged.

    `former` schemas lack only what has a default today."""
    try:
        table = parse_json(read_limited(path))
    except FileNotFoundError:
        raise UserError("missing", topic=topic, where=str(path)) from None
    except ValueError as problem:
        what = f"damaged, not JSON ({problem})"
        raise UserError(what, topic=topic, where=str(path), hint=hint) from None
    if not isinstance(table, dict) or table.get("schema") not in (schema, *former):
        found = table.get("schema") if isinstance(table, dict) else None
        raise UserError(
            f"schema {shorten(found)} is unknown; this regard reads schema {schema}",
            topic=topic,
            where=str(path),
            hint="Use the version of regard that wrote it, or run it again.",
        )
    return table


def _write_manifest(folder: Path) -> None:
    digests = {}
    for file in sorted(folder.iterdir()):
        file.chmod(0o644)
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
        digests[file.name] = sha256(file)
    write_json(folder / MANIFEST, {"schema": 1, "files": digests})


def sha256(file: Path) -> str:
    """SHA-256 of the file's content, in hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def sync_file(file: Path) -> None:
    """Make what was written to a file so far survive a power cut, if it exists."""
    if file.is_file():
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut (POSIX only)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
