"""Delete runs: only run folders, only those chosen, each atomically.

A folder is renamed to a hidden name first and then removed: a run exists or it does not, even if
the deletion is killed. Links are never followed.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from regard.core.errors import UserError
from regard.runs.archive.filters import Condition
from regard.runs.archive.index import RECIPE, STAMPED, ListedRun, read_facts
from regard.runs.locking.lock import lock_run
from regard.runs.recipe_paths import ORIGIN_FILE

RUN_FILES = {*STAMPED, "audit.json"} - {RECIPE}
"Files that a training writes besides the recipe."
HIDDEN_PREFIX = ".regard-deleted-"


def check_deletable(
    chosen: Sequence[ListedRun],
    all_runs: Sequence[ListedRun],
    *,
    conditions: Sequence[Condition] = (),
    confirmed: frozenset[str] = frozenset(),
    root: Path,
) -> None:
    """Refuse the whole deletion if one run must stay. A run that others start from is deleted only
    if it is `confirmed`, that is, given by name."""
    for run in chosen:
        _check_unchanged(run, conditions, root=root)
    names = {run.name for run in chosen}
    names_by_path: dict[Path, list[str]] = {}
    for run in chosen:
        for path in _paths(run):
            names_by_path.setdefault(path, []).append(run.name)
    for other in all_runs:
        if other.name in names:
            continue
        for above in PurePosixPath(other.name).parents:
            if str(above) in names:
                raise UserError(
                    f"{above} contains another run, {other.name}; nothing was deleted",
                    topic="runs",
                    hint="Move that one elsewhere, or delete both.",
                )
        for path in _initial_model_paths(other, root):
            for name in names_by_path.get(path, ()):
                if name not in confirmed:
                    raise UserError(
                        f"{other.name} starts from {name}; nothing was deleted",
                        topic="runs",
                        hint=f"Delete both, or give it by name: regard runs {name} --delete --yes",
                    )


def delete_runs(chosen: Sequence[ListedRun]) -> None:
    """Delete all of them, or none if another process is writing to one."""
    with ExitStack() as locks:
        held = []
        # A run may contain another one and its lock: the inner goes first.
        for run in sorted(chosen, key=lambda run: -len(run.folder.parts)):
            lock = locks.enter_context(ExitStack())
            lock.enter_context(lock_run(run.folder, "deletion"))
            held.append((run, lock))
        for run, lock in held:
            _delete(run.folder)
            lock.close()


def _check_unchanged(run: ListedRun, conditions: Sequence[Condition], *, root: Path) -> None:
    """Read the folder itself, not the index: it must still be the run that was chosen."""
    names = {entry.name for entry in run.folder.iterdir()} if run.folder.is_dir() else set()
    facts = read_facts(run.folder, name=run.name)
    linked = run.folder.resolve() != root.resolve() / run.folder.relative_to(root)
    if linked or RECIPE not in names:
        what = "it is not a run any more"
    elif not names & RUN_FILES and (other := sorted(names - {RECIPE, ORIGIN_FILE, "with"})):
        what = f"no training began there, and it contains other files ({other[0]})"
    elif facts["state"] != run.state or not all(one.matches(facts) for one in conditions):
        what = "it has changed since it was chosen"
    else:
        return
    raise UserError(
        f"{what}; nothing was deleted",
        topic="runs",
        where=str(run.folder),
        hint="Choose without it, or delete the folder yourself.",
    )


def _paths(run: ListedRun) -> Iterator[Path]:
    """Paths by which an `init_from` may name this run: its folder, or the recipe it was run from.

    The run of NAME.toml is in the folder NAME, or NAME-1a2b3c4d with the start of its identity.
    """
    folder = run.folder.resolve()
    yield folder
    for name in {folder.name, re.sub("-[0-9a-f]{8}$", "", folder.name)}:
        yield folder.parent / f"{name}.toml"


def _initial_model_paths(run: ListedRun, root: Path) -> Iterator[Path]:
    """Paths that its recipe's `init_from` may mean, from the working folder or beside the runs."""
    init_from = run.facts.get("init_from")
    if not isinstance(init_from, str):
        return
    for path in (Path(init_from), root.resolve().parent / init_from):
        if path.suffix == ".toml":  # its run is beside this one
            yield run.folder.resolve().parent / f"{_recipe_name(path)}.toml"
        else:
            yield path.resolve()


def _recipe_name(recipe: Path) -> str:
    try:
        return str(tomllib.loads(recipe.read_text(encoding="utf-8-sig")).get("name", recipe.stem))
    except (
        OSError,
        ValueError,
        RecursionError,
    ):  # moved or changed since: usually the file has its name
        return recipe.stem


def _delete(folder: Path) -> None:
    hidden = folder.with_name(f"{HIDDEN_PREFIX}{secrets.token_hex(4)}")
    folder.rename(hidden)
    if hidden.is_symlink() or not (hidden / RECIPE).is_file():
        hidden.rename(folder)  # changed at the last moment
        raise UserError("it is not a run any more", topic="runs", where=str(folder))
    # Also remove what a killed deletion left.
    for left in folder.parent.glob(f"{HIDDEN_PREFIX}*"):
        if not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
    if hidden.exists():
        raise UserError(
            f"some of its files cannot be removed; they are in {hidden}",
            topic="runs",
            where=str(folder),
            hint="Change their permissions, then delete that folder.",
        )
