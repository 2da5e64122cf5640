"""What an adapter stands on: found again by where it was, and known by its weights."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path
from typing import Any

from regard import __version__
from regard.core.errors import UserError
from regard.core.files import MANIFEST, find_damage, sha256
from regard.data.token_cache import cache_home
from regard.interop.import_model import import_model
from regard.interop.packages import MARK
from regard.runs.run import Run, check_whole, read_config
from regard.training.checkpoint import ADAPTER_FILE, WEIGHTS_FILE


def imported_package(source: str) -> Path:
    """The model of a pip package, imported once for each version of it."""
    name = source.removeprefix(MARK)
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = "none"  # import_model says how to get it
    folder = cache_home() / "models" / f"{name}-{version}-regard-{__version__}"
    if find_damage(folder) is not None:
        import_model(source, folder)
    return folder


def is_foreign(place: Path) -> bool:
    """Whether a folder holds a model of another tool, which is not imported yet."""
    return (place / "config.json").is_file() and not (place / MANIFEST).is_file()


def import_command(place: Path) -> str:
    return f"regard import {place} --out ANOTHER_FOLDER"


def weights_fingerprint(folder: Path) -> str:
    """Of all the weights that a model folder stands for, its base's too."""
    if (folder / WEIGHTS_FILE).is_file():
        return sha256(folder / WEIGHTS_FILE)
    below = str(read_config(folder)["base"]["fingerprint"])
    return hashlib.sha256(f"{below}\n{sha256(folder / ADAPTER_FILE)}".encode()).hexdigest()


def base_table(place: Path, folder: Path, *, named: str) -> dict[str, str]:
    """What an adapter keeps of the model it was trained on."""
    is_package = named.startswith(MARK)
    return {
        "place": named if is_package else str(place),
        "fingerprint": weights_fingerprint(folder),
    }


def find_base(base: dict[str, Any], *, owner: Path, given: Path | None) -> Path:
    """The model folder that an adapter was trained on; another one is refused."""
    place = str(given) if given is not None else str(base["place"])
    if place.startswith(MARK):
        folder = imported_package(place)
    elif Run(Path(place)).recipe_file.is_file():
        folder = Run(Path(place)).model_folder()
    elif (Path(place) / MANIFEST).is_file():
        folder = check_whole(Path(place))
    elif is_foreign(Path(place)):
        raise UserError(
            f"{place} is no model of regard's yet, so it cannot be the base of {owner}",
            topic="model",
            hint=f"Import it: {import_command(Path(place))}, and give that: --base ANOTHER_FOLDER.",
        )
    else:
        raise UserError(
            f"{owner} holds an adapter for the model {place}, which is not there",
            topic="model",
            hint="Put it back, or name where it is now: --base FOLDER.",
        )
    if weights_fingerprint(folder) != base["fingerprint"]:
        raise UserError(
            f"{owner} holds an adapter for weights {base['fingerprint'][:8]}…, and {place} has "
            f"{weights_fingerprint(folder)[:8]}…: it would change another model than it learnt on",
            topic="model",
            hint="Give the base it was trained on with --base FOLDER, or train it again.",
        )
    return folder
