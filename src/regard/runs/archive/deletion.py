"""Deleting runs: only folders that are runs, only as chosen, and each in one step.

What is deleted goes under a hidden name first and is then removed: a run is there or it is not,
even when the deletion is killed. Links are never followed.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from regard.core.errors import UserError
from regard.runs.archive.filters import Condition
from regard.runs.archive.index import RECIPE, STAMPED, ListedRun, read_facts

TRACES = {*STAMPED, "audit.json"} - {RECIPE}
"What a training leaves in its folder besides the recipe."
ASIDE = ".regard-deleted-"


def check_deletable(
    doomed: Sequence[ListedRun],
    everything: Sequence[ListedRun],
    *,
    conditions: Sequence[Condition] = (),
    needless: frozenset[str] = frozenset(),
    root: Path,
) -> None:
    """Refuse the whole where one of the runs must not go; others may not need those `needless`."""
    for run in doomed:
        _check_is_the_run_meant(run, conditions, root=root)
    going = {run.name for run in doomed}
    known_as: dict[Path, list[str]] = {}
    for run in doomed:
        for place in _places(run):
            known_as.setdefault(place, []).append(run.name)
    for other in everything:
        if other.name in going:
            continue
        for above in PurePosixPath(other.name).parents:
            if str(above) in going:
                raise UserError(
                    f"{above} holds another run, {other.name}; nothing was deleted",
                    topic="runs",
                    hint="Move that one elsewhere, or delete both.",
                )
        for start in _possible_starts(other, root):
            for name in known_as.get(start, ()):
                if name not in needless:
                    raise UserError(
                        f"{other.name} starts from {name}; nothing was deleted",
                        topic="runs",
                        hint=f"Delete both, or say it by name: regard runs {name} --delete --yes",
                    )


def delete_runs(doomed: Sequence[ListedRun]) -> None:
    # A run may hold another one: the inner goes first.
    for run in sorted(doomed, key=lambda run: -len(run.folder.parts)):
        _delete(run.folder)


def _check_is_the_run_meant(run: ListedRun, conditions: Sequence[Condition], *, root: Path) -> None:
    """Look at the folder itself, not at the index: it has to be a run that was chosen."""
    names = {entry.name for entry in run.folder.iterdir()} if run.folder.is_dir() else set()
    facts = read_facts(run.folder, place=run.name)
    linked = run.folder.resolve() != root.resolve() / run.folder.relative_to(root)
    if linked or RECIPE not in names:
        what = "it is not a run any more"
    elif not names & TRACES and (other := sorted(names - {RECIPE, "with"})):
        what = f"no training began there, and it holds other things ({other[0]})"
    elif facts["state"] != run.state or not all(one.meets(facts) for one in conditions):
        what = "it has changed since it was chosen"
    else:
        return
    raise UserError(
        f"{what}; nothing was deleted",
        topic="runs",
        where=str(run.folder),
        hint="Choose without it, or delete the folder yourself.",
    )


def _places(run: ListedRun) -> Iterator[Path]:
    """What a `start` that means this run leads to: its folder, or the recipe it is the result of.

    The result of NAME.toml stands in the folder NAME, or NAME-1a2b3c4d with some of its identity.
    """
    folder = run.folder.resolve()
    yield folder
    for name in {folder.name, re.sub("-[0-9a-f]{8}$", "", folder.name)}:
        yield folder.parent / f"{name}.toml"


def _possible_starts(run: ListedRun, root: Path) -> Iterator[Path]:
    """What its recipe's `start` may lead to, seen from here or from beside the runs."""
    start = run.facts.get("start")
    if not isinstance(start, str):
        return
    for place in (Path(start), root.resolve().parent / start):
        if place.suffix == ".toml":  # its result was made beside the run
            yield run.folder.resolve().parent / f"{_name_of(place)}.toml"
        else:
            yield place.resolve()


def _name_of(recipe: Path) -> str:
    try:
        return str(tomllib.loads(recipe.read_text(encoding="utf-8-sig")).get("name", recipe.stem))
    except (OSError, ValueError):  # moved or changed since: by custom it bears its name
        return recipe.stem


def _delete(folder: Path) -> None:
    aside = folder.with_name(f"{ASIDE}{secrets.token_hex(4)}")
    folder.rename(aside)
    if aside.is_symlink() or not (aside / RECIPE).is_file():
        aside.rename(folder)  # changed in the last moment
        raise UserError("it is not a run any more", topic="runs", where=str(folder))
    # With it goes what a killed deletion left beside it.
    for left in folder.parent.glob(f"{ASIDE}*"):
        if not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
    if aside.exists():
        raise UserError(
            f"some of its files cannot be removed; they are in {aside}",
            topic="runs",
            where=str(folder),
            hint="Change their permissions, then delete that folder.",
        )
