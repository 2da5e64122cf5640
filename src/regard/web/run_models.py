"""Models of runs, for the page: loaded from folders of the index alone, and never what runs code.

A run is refused whose parts are in somebody's own file, whose attention is broken on purpose, or
whose weights began in another tool's model or lie outside of the folder that is served.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.user_files import RUN_COPIES
from regard.interop.packages import PIP_PREFIX
from regard.runs.models.loaded_model import LoadedModel, load_model
from regard.runs.models.saved_config import read_config
from regard.runs.models.saved_model import MAX_ADAPTERS, architecture_of, saved_settings
from regard.runs.recipe_paths import candidates_of_run, find_path, run_around
from regard.runs.run import Run
from regard.runs.training_audit import broken_kinds

KEPT_MODELS = 2


def load_run(folder: Path, root: Path) -> LoadedModel:
    """The model of a run below `root`; the same object until its files change."""
    run = Run(folder)
    model = run.model_folder()
    return _load(folder, root, (model / "manifest.json").stat().st_mtime_ns)


@lru_cache(maxsize=KEPT_MODELS)
def _load(folder: Path, root: Path, changed: int) -> LoadedModel:
    _check(folder, root)
    return load_model(folder)


def _check(folder: Path, root: Path) -> None:
    """Refuse before anything is built; the base models of adapters too."""
    if any((folder / RUN_COPIES).glob("*.py")):
        raise _refused("it has parts in somebody's own files")
    model = Run(folder).model_folder()
    for _ in range(MAX_ADAPTERS):
        if not model.resolve().is_relative_to(root.resolve()):
            raise _refused("it was adapted from a model outside of this folder")
        config = read_config(model)
        if "imported" in config or architecture_of(config) is not None:
            raise _refused("its weights began in another tool's model")
        if broken_kinds(_settings(config, model).model):
            raise _refused("its attention is broken on purpose")
        if any((config.get("task") or {}).get(key) for key in ("collection", "judgements")):
            raise _refused("its task searches files outside of the run")
        if "adapt" not in config:
            return
        model = _base_folder(config["base"]["path"], model)


def _base_folder(path: str, model: Path) -> Path:
    """Where an adapter's base model is, before anything of it is opened."""
    if path.startswith(PIP_PREFIX):
        raise _refused("its weights began in another tool's model")
    found = Path(find_path(path, candidates_of_run(run_around(model))))
    return found / "final" if Run(found).recipe_file.is_file() else found


def _settings(config: dict[str, Any], model: Path) -> Any:
    try:
        return saved_settings(config, model)
    except UserError:
        # The sentence names files, and the way out is in the terminal.
        raise _refused("it has parts that this page does not load") from None


def _refused(why: str) -> UserError:
    return UserError(
        f"this run is not loaded here: {why}",
        topic="page",
        hint="`regard inspect` loads it in a terminal.",
    )
