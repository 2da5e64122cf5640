"""The seal of a finished run or study: the SHA-256 of every file that others read of it.

    seal.json   {"schema": 1, "files": {"events.jsonl": "9f2c…", "results.json": "41d0…"},
                 "checksum": "77be…"}   of the files' own checksums

A flipped bit can turn a perplexity of 88.9 into 98.9, and a hand can. Whoever reads a sealed file
checks it first: what is not as it was written is never shown as a result. The file that is written
last says `"sealed": true`, so that its reader misses a seal that is gone. Other folders without a
seal, of runs that are not finished or of earlier versions, are read as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import json_text, sha256, sync_file, write_json, write_text
from regard.core.untrusted import parse_json, read_limited

SEAL = "seal.json"
SCHEMA = 1
SECONDS_OF_WRITING = 5
"A file that is younger than its seal by more was written by somebody else."
MARK = b'"sealed": true'
'In the file that is written last; a text of it would hold \\"sealed\\".'
FORMER = " (former)"
"Behind a name in the seal: the same file as it was until it is replaced."


def write_and_seal(
    file: Path, table: Mapping[str, Any], *, sealed_with: Iterable[Path] = ()
) -> None:
    """Write the last file of a folder and the seal over it and over `sealed_with`.

    The seal is written first: where the file exists, so does its seal, even after a kill. Until the
    file is replaced, the seal is good for the former one too.
    """
    home, sealed_with = file.parent, sorted(sealed_with)
    text = json_text({**table, "sealed": True})
    for path in sealed_with:
        sync_file(path)  # events were only flushed: sealed, they must not be shorter tomorrow
    files = {path.relative_to(home).as_posix(): sha256(path) for path in sealed_with}
    files[file.name] = hashlib.sha256(text.encode()).hexdigest()
    replaces = file.is_file() and find_change(home, file.name) is None
    if replaces:
        _write_seal(home, {**files, file.name + FORMER: sha256(file)})
    else:
        _write_seal(home, files)
    write_text(file, text)
    if replaces:
        _write_seal(home, files)


def _write_seal(home: Path, files: Mapping[str, str]) -> None:
    write_json(home / SEAL, {"schema": SCHEMA, "files": files, "checksum": checksum(files)})


def break_seal(home: Path) -> None:
    """Remove the seal, before the folder's files change."""
    (home / SEAL).unlink(missing_ok=True)


def check_sealed(home: Path, name: str, *, topic: str, hint: str) -> None:
    """Raise if the file `name` of a sealed folder is not the one that was sealed."""
    what = find_change(home, name)
    if what is not None:
        raise UserError(what, topic=topic, where=str(home / name), hint=hint)


def check_seal(home: Path, name: str, *, topic: str, hint: str) -> None:
    """Raise if a file that says it was sealed has lost its seal."""
    if not (home / SEAL).is_file():
        what = f"cannot be vouched for: {SEAL} beside it is gone"
        raise UserError(what, topic=topic, where=str(home / name), hint=hint)


def find_change(home: Path, name: str) -> str | None:
    """What became of a sealed file, in words; None if it is as it was, or nothing is sealed."""
    try:
        seal = parse_json(read_limited(home / SEAL))
        files = seal["files"]
        if seal["schema"] != SCHEMA or seal["checksum"] != checksum(files):
            raise ValueError("the seal itself has changed")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"cannot be vouched for: {SEAL} beside it is damaged"
    file = home / name
    if name not in files:
        return "was added after the folder was sealed" if file.is_file() else None
    if not file.is_file():
        return "is missing, though it was sealed"
    if sha256(file) in (files[name], files.get(name + FORMER)):
        return None
    changed, sealed = (one.stat().st_mtime for one in (file, home / SEAL))
    if changed - sealed > SECONDS_OF_WRITING:
        on = datetime.fromtimestamp(changed, UTC).isoformat(sep=" ", timespec="minutes")
        return f"was edited after it was sealed (on {on.removesuffix('+00:00')} UTC)"
    return "is damaged: it is not what was written, though nothing was saved to it since"


def checksum(files: Mapping[str, Any]) -> str:
    """Of a table that is written to JSON with it."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
