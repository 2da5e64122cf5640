"""User-defined parts (plugins) in Python files, loaded only by an explicit `--with FILE`.

A recipe or a run folder alone never runs code. A run stores a copy of the files its recipe uses in
`with/`, so the code can be read and run again by passing the copy to `--with`. Another version of
the same part is refused for that run, because its results would belong to other code.
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
from regard.core.files import read_text, write_text

MODULE_PREFIX = "regard_user_files"
"Prefix of the module names of loaded files in `sys.modules`."
RUN_COPIES = "with"
"Subfolder of a run with copies of the files its recipe uses."


@dataclass(frozen=True)
class UserFile:
    """A loaded file and the parts it registered."""

    path: Path
    content: bytes
    parts: tuple[Entry, ...]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


_loaded: dict[str, UserFile] = {}
"By SHA-256 of the content: the same code is loaded once, whatever its path."
_catalogs: dict[str, Catalog] = {}
"The catalogues that files were loaded into, by name."


def load_user_files(paths: Iterable[str | Path], catalogs: Sequence[Catalog]) -> list[UserFile]:
    """Execute these files, which register their parts in the catalogues."""
    return [_load(Path(path), catalogs) for path in paths]


def loaded_files() -> list[UserFile]:
    """All of them: a file may change more than the parts that a recipe names."""
    return list(_loaded.values())


def files_used_by(table: Mapping[str, Any]) -> list[UserFile]:
    """The loaded files that define a part named in a recipe's table."""
    names = set(_strings(table))
    return [file for file in _loaded.values() if any(part.name in names for part in file.parts)]


def copy_to_run(files: Iterable[UserFile], run: Path) -> None:
    """Copy files into the run's `with/` folder."""
    for file in files:
        (run / RUN_COPIES).mkdir(exist_ok=True)
        copy = run / RUN_COPIES / file.path.name
        if copy.exists():  # two files of the same name from two folders
            copy = copy.with_stem(f"{copy.stem}-{file.sha256[:8]}")
        write_text(copy, file.content.decode())


def check_same_code(files: Iterable[UserFile], run: Path) -> None:
    """Refuse files that differ from the copies stored in the run."""
    copies = _run_copies(run)
    digests = {hashlib.sha256(copy.read_bytes()).hexdigest() for copy in copies}
    for file in files:
        if copies and file.sha256 not in digests:
            raise UserError(
                f"{file.path} differs from the file that {run} was trained with",
                topic="run",
                hint=f"Use the run's copy: {_flags(copies)}; or train a new run with your file.",
            )


@contextmanager
def suggest_run_files(folder: Path) -> Iterator[None]:
    """If a part of a run is unknown, suggest the run's copies of user files."""
    try:
        yield
    except UnknownPartError as problem:
        copies = _run_copies(folder)
        if not copies:
            raise
        raise UnknownPartError(
            problem.what.partition(" — ")[0].partition(";")[0],
            topic=problem.topic,
            where=problem.where,
            hint=f"It is defined in a file stored with the run: add {_flags(copies)}",
        ) from None


def _run_copies(folder: Path) -> list[Path]:
    """The copies in a run, or in the run that a model folder or checkpoint belongs to."""
    for run in (folder, folder.parent, folder.parent.parent):
        if (run / RUN_COPIES).is_dir() and (run / "recipe.toml").is_file():
            return sorted((run / RUN_COPIES).glob("*.py"))
    return []


def _flags(copies: Iterable[Path]) -> str:
    return " ".join(f"--with {shlex.quote(str(copy))}" for copy in copies)


def _strings(table: Any) -> Iterator[str]:
    if isinstance(table, Mapping):
        for value in table.values():
            yield from _strings(value)
    elif isinstance(table, list | tuple):
        for value in table:
            yield from _strings(value)
    elif isinstance(table, str):
        yield table


def _load(path: Path, catalogs: Sequence[Catalog]) -> UserFile:
    content = _read(path)
    digest = hashlib.sha256(content).hexdigest()
    if digest in _loaded:
        return _loaded[digest]
    if registered := _registered_from(path, catalogs):
        return UserFile(path, content, tuple(registered))
    for earlier in list(_loaded.values()):
        if earlier.path.resolve() == path.resolve():
            unload(earlier)  # edited during this session: the new version replaces it
    # Built-in parts first, so that the error about a taken name points at the user's file.
    names_before = {catalog.name: set(catalog.names()) for catalog in catalogs}
    _catalogs.update({catalog.name: catalog for catalog in catalogs})
    try:
        _run(path, content, name=_module_name(path, digest))
    except BaseException:  # Ctrl-C too: a file that failed half-way registers nothing
        _unregister(_added(catalogs, names_before))
        raise
    file = UserFile(path, content, tuple(_added(catalogs, names_before)))
    _loaded[digest] = file
    return file


def _registered_from(path: Path, catalogs: Sequence[Catalog]) -> list[Entry]:
    """The parts of a file in a catalogue's home package, which are registered already."""
    return [
        entry
        for catalog in catalogs
        for entry in catalog
        if not entry.part.__module__.startswith(f"{MODULE_PREFIX}.")
        and Path(inspect.getsourcefile(entry.part) or "").resolve() == path.resolve()
    ]


def unload(file: UserFile) -> None:
    """Unregister a file's parts."""
    _unregister(file.parts)
    _loaded.pop(file.sha256, None)
    sys.modules.pop(_module_name(file.path, file.sha256), None)


def _unregister(parts: Iterable[Entry]) -> None:
    for part in parts:
        _catalogs[part.catalog].remove(part.name)


def _added(catalogs: Sequence[Catalog], names_before: Mapping[str, set[str]]) -> list[Entry]:
    return [
        entry
        for catalog in catalogs
        for entry in catalog
        if entry.name not in names_before[catalog.name]
    ]


def _module_name(path: Path, digest: str) -> str:
    return f"{MODULE_PREFIX}.{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}_{digest[:8]}"


def _read(path: Path) -> bytes:
    if path.suffix != ".py" and path.is_file():
        raise UserError(
            f"{path} is not a Python file",
            topic="part",
            hint="Give a file that ends in .py, such as my_kind.py.",
        )
    hint = "Give the path of a Python file that registers a part, such as my_kind.py."
    read_text(path, topic="part", hint=hint)
    return path.read_bytes()


def _run(path: Path, content: bytes, *, name: str) -> None:
    """Execute a file as a module. Compiled here, so that no stale .pyc beside it runs."""
    resolved = str(path.resolve())
    linecache.checkcache(resolved)
    spec = importlib.machinery.ModuleSpec(name, None, origin=resolved)
    module = importlib.util.module_from_spec(spec)
    module.__file__ = resolved
    sys.modules[name] = module
    try:
        exec(compile(content, resolved, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as problem:  # user code may raise anything
        del sys.modules[name]
        raise _load_error(path, resolved, problem) from None


def _load_error(path: Path, resolved: str, problem: BaseException) -> UserError:
    """The exception as a `UserError` with file and line."""
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
        hint = (
            "A file given to --with can import regard and installed packages, not files beside it."
        )
    message = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    return UserError(f"{type(problem).__name__}: {message}", topic="part", where=where, hint=hint)
