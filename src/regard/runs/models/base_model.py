"""The base model of an adapter: found again by its path, checked by its weights."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path
from typing import Any

from regard import __version__
from regard.core.errors import UserError
from regard.core.files import MANIFEST, find_damage, path_text, sha256
from regard.data.token_cache.cache import cache_home
from regard.interop.import_model import import_model
from regard.interop.packages import PIP_PREFIX, check_package_name
from regard.runs.models.saved_config import read_config
from regard.runs.recipe_paths import candidates_of_run, find_path, run_around
from regard.runs.run import Run, check_intact
from regard.training.checkpoint import ADAPTER_FILE, WEIGHTS_FILE


def imported_package(source: str) -> Path:
    """The model of a pip package, imported once per version."""
    name = check_package_name(source.removeprefix(PIP_PREFIX))
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = "none"  # import_model raises and says how to install it
    folder = cache_home() / "models" / f"{name}-{version}-regard-{__version__}"
    if find_damage(folder) is not None:
        import_model(source, folder)
    return folder


def is_unimported(path: Path) -> bool:
    """Whether a folder holds a model of another tool that was not imported."""
    return (path / "config.json").is_file() and not (path / MANIFEST).is_file()


def import_command(path: Path) -> str:
    return f"regard import {path} --out ANOTHER_FOLDER"


def weights_fingerprint(folder: Path) -> str:
    """Hash of all weights of a model folder, those of its base model included."""
    if (folder / WEIGHTS_FILE).is_file():
        return sha256(folder / WEIGHTS_FILE)
    base = str(read_config(folder)["base"]["fingerprint"])
    return hashlib.sha256(f"{base}\n{sha256(folder / ADAPTER_FILE)}".encode()).hexdigest()


def base_entry(path: Path, folder: Path, *, init_from: str) -> dict[str, str]:
    """The entry in an adapter's config.json that identifies its base model."""
    is_package = init_from.startswith(PIP_PREFIX)
    return {
        "path": init_from if is_package else path_text(path),
        "fingerprint": weights_fingerprint(folder),
    }


def find_base(base: dict[str, Any], *, owner: Path, given: Path | None) -> Path:
    """The model folder that an adapter was trained on; one with other weights is refused."""
    path = (
        str(given)
        if given is not None
        else find_path(base["path"], candidates_of_run(run_around(owner)))
    )
    if path.startswith(PIP_PREFIX):
        folder = imported_package(path)
    elif Run(Path(path)).recipe_file.is_file():
        folder = Run(Path(path)).model_folder()
    elif (Path(path) / MANIFEST).is_file():
        folder = check_intact(Path(path))
    elif is_unimported(Path(path)):
        raise UserError(
            f"{path} was not imported yet, so it cannot be the base model of {owner}",
            topic="model",
            hint=f"Import it: {import_command(Path(path))}, and give that: --base ANOTHER_FOLDER.",
        )
    else:
        raise UserError(
            f"{owner} holds an adapter for the model {path}, which does not exist",
            topic="model",
            hint="Put it back, or give its new path: --base FOLDER.",
        )
    if weights_fingerprint(folder) != base["fingerprint"]:
        raise UserError(
            f"{owner} holds an adapter for weights {base['fingerprint'][:8]}…, and {path} has "
            f"{weights_fingerprint(folder)[:8]}…: it was trained on another model",
            topic="model",
            hint="Give the base model it was trained on with --base FOLDER, or train it again.",
        )
    return folder
