"""Parts in a person's own file: loaded when they name it with `--with`, and never otherwise.

A recipe or a run folder alone never runs code. A run keeps a copy of the files its recipe uses in
`with/`, so that what was run can be read, and run again by naming the copy; another version of the
same part is refused there, because figures would speak of something else.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import inspect
import linecache
import re
import shlex
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.catalog import Catalog, Entry, UnknownPartError
from regard.core.errors import UserError
from regard.core.files import write_text

MODULES = "regard_own"
"Where Python knows loaded files, beside regard."
KEPT = "with"
"The folder of a run that holds copies of the files its recipe uses."


@dataclass(frozen=True)
class OwnFile:
    """A file that was loaded, and the parts it added."""

    path: Path
    content: bytes
    parts: tuple[Entry, ...]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


_loaded: dict[str, OwnFile] = {}
"By SHA-256 of the content: the same code, wherever it stands, is loaded once."
_catalogs: dict[str, Catalog] = {}
"Those that files were loaded into, by sort."


def load_own_files(paths: Iterable[str | Path], catalogs: Sequence[Catalog]) -> list[OwnFile]:
    """Run these files; the parts they add are in the catalogues from then on."""
    return [_load(Path(path), catalogs) for path in paths]


def used_in(table: Mapping[str, Any]) -> list[OwnFile]:
    """The loaded files of which some part is named in a recipe's table."""
    words = set(_words(table))
    return [file for file in _loaded.values() if any(part.name in words for part in file.parts)]


def keep(files: Iterable[OwnFile], run: Path) -> None:
    """Copy files into a run's folder."""
    for file in files:
        (run / KEPT).mkdir(exist_ok=True)
        copy = run / KEPT / file.path.name
        if copy.exists():  # two files of one name, from two folders
            copy = copy.with_stem(f"{copy.stem}-{file.sha256[:8]}")
        write_text(copy, file.content.decode())


def check_kept(files: Iterable[OwnFile], run: Path) -> None:
    """Refuse code that differs from what the run was made with."""
    kept = _kept(run)
    digests = {hashlib.sha256(copy.read_bytes()).hexdigest() for copy in kept}
    for file in files:
        if kept and file.sha256 not in digests:
            raise UserError(
                f"{file.path} differs from the file that {run} was begun with",
                topic="run",
                hint=f"Give its own copy: {_flags(kept)}; or train anew with yours.",
            )


@contextmanager
def naming_kept(folder: Path) -> Iterator[None]:
    """Where a run's part is unknown, say which of its files brings it."""
    try:
        yield
    except UnknownPartError as problem:
        kept = _kept(folder)
        if not kept:
            raise
        raise UnknownPartError(
            problem.what.partition(" — ")[0].partition(";")[0],
            topic=problem.topic,
            where=problem.where,
            hint=f"It comes from a file of the run's own: add {_flags(kept)}",
        ) from None


def _kept(folder: Path) -> list[Path]:
    """The copies in a run's folder, or in the run to which a model's folder belongs."""
    for run in (folder, folder.parent, folder.parent.parent):
        if (run / KEPT).is_dir() and (run / "recipe.toml").is_file():
            return sorted((run / KEPT).glob("*.py"))
    return []


def _flags(kept: Iterable[Path]) -> str:
    return " ".join(f"--with {shlex.quote(str(copy))}" for copy in kept)


def _words(table: Any) -> Iterator[str]:
    if isinstance(table, Mapping):
        for value in table.values():
            yield from _words(value)
    elif isinstance(table, list | tuple):
        for value in table:
            yield from _words(value)
    elif isinstance(table, str):
        yield table


def _load(path: Path, catalogs: Sequence[Catalog]) -> OwnFile:
    content = _read(path)
    digest = hashlib.sha256(content).hexdigest()
    if digest in _loaded:
        return _loaded[digest]
    if at_home := _at_home(path, catalogs):
        return OwnFile(path, content, tuple(at_home))
    for before in list(_loaded.values()):
        if before.path.resolve() == path.resolve():
            forget(before)  # edited since, in a session that goes on: the new version counts
    # All of regard's own parts first, so that a taken name is found where it is taken again.
    known = {catalog.sort: set(catalog.names()) for catalog in catalogs}
    _catalogs.update({catalog.sort: catalog for catalog in catalogs})
    try:
        _run(path, content, name=_module_name(path, digest))
    except BaseException:  # whatever stopped it: half of a file stays behind in no catalogue
        _withdraw(_added(catalogs, known))
        raise
    file = OwnFile(path, content, tuple(_added(catalogs, known)))
    _loaded[digest] = file
    return file


def _at_home(path: Path, catalogs: Sequence[Catalog]) -> list[Entry]:
    """The parts of a file that regard found by itself, in the home of a catalogue."""
    return [
        entry
        for catalog in catalogs
        for entry in catalog
        if not entry.part.__module__.startswith(f"{MODULES}.")
        and Path(inspect.getsourcefile(entry.part) or "").resolve() == path.resolve()
    ]


def forget(file: OwnFile) -> None:
    """Take a file's parts out of the catalogues again."""
    _withdraw(file.parts)
    _loaded.pop(file.sha256, None)
    sys.modules.pop(_module_name(file.path, file.sha256), None)


def _withdraw(parts: Iterable[Entry]) -> None:
    for part in parts:
        _catalogs[part.catalog].remove(part.name)


def _added(catalogs: Sequence[Catalog], known: Mapping[str, set[str]]) -> list[Entry]:
    return [
        entry for catalog in catalogs for entry in catalog if entry.name not in known[catalog.sort]
    ]


def _module_name(path: Path, digest: str) -> str:
    return f"{MODULES}.{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}_{digest[:8]}"


def _read(path: Path) -> bytes:
    if path.suffix != ".py" and path.is_file():
        raise UserError(
            f"{path} is no Python file",
            topic="part",
            hint="Give a file that ends in .py, such as my_kind.py.",
        )
    try:
        content = path.read_bytes()
        content.decode()
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist",
            topic="part",
            hint="Give the path of a Python file that adds a part, such as my_kind.py.",
        ) from None
    except OSError as problem:
        raise UserError(f"{path} cannot be read ({problem.strerror})", topic="part") from None
    except UnicodeDecodeError:
        raise UserError(
            f"{path} is not text in UTF-8", topic="part", hint="Give a Python file."
        ) from None
    return content


def _run(path: Path, content: bytes, *, name: str) -> None:
    """Import a file by path. Compiled here, because a stale cached one beside it must not run."""
    resolved = str(path.resolve())
    linecache.checkcache(resolved)
    spec = importlib.machinery.ModuleSpec(name, None, origin=resolved)
    module = importlib.util.module_from_spec(spec)
    module.__file__ = resolved
    sys.modules[name] = module
    try:
        exec(compile(content, resolved, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as problem:  # the file is somebody's own code: it may raise all
        del sys.modules[name]
        raise _explained(path, resolved, problem) from None


def _explained(path: Path, resolved: str, problem: BaseException) -> UserError:
    """File, line, and what went wrong there."""
    if isinstance(problem, SyntaxError) and problem.filename == resolved:
        line = problem.lineno
    else:
        frames = traceback.extract_tb(problem.__traceback__)
        line = next((f.lineno for f in reversed(frames) if f.filename == resolved), None)
    where = f"{path}, line {line}" if line else str(path)
    if isinstance(problem, UserError):
        what = f"{problem.where}: {problem.what}" if problem.where else problem.what
        return UserError(what, topic="part", where=where, hint=problem.hint)
    hint = ""
    if isinstance(problem, ImportError):
        hint = "A file of your own can import regard and installed packages, not its neighbours."
    words = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    return UserError(f"{type(problem).__name__}: {words}", topic="part", where=where, hint=hint)
