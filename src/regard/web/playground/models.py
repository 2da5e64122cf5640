"""The models that a worker keeps loaded, and which runs are let in.

What comes over HTTP loads a finished run's `final/` and the base models below the same root, all of
them regard's own safetensors with a manifest. It loads no code (a person's own files), no kind that
is broken on purpose, no foreign model, and opens no file that a recipe names elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.files import MANIFEST
from regard.core.user_files import RUN_COPIES
from regard.data.builtin import BUILTIN
from regard.data.corpus import Data
from regard.interop.packages import PIP_PREFIX
from regard.models.tensor_files import count_tensors
from regard.runs.models.loaded_model import LoadedModel, load_model
from regard.runs.models.saved_config import read_config
from regard.runs.models.saved_model import saved_settings
from regard.runs.recipe_paths import DATA_KEYS, Candidates, candidates_of_run, find_path, run_around
from regard.runs.run import Run
from regard.runs.training_audit import broken_kinds
from regard.training.checkpoint import WEIGHTS_FILE

MAX_PARAMETERS = 500_000_000
"Of one model: more would not fit beside a training."
MAX_KEPT = 3
MAX_KEPT_PARAMETERS = 150_000_000
"Of all models kept together; the one in use is always kept."
MAX_BASES = 8

Key = tuple[str, int, int]
"A folder, and modification time and size of its manifest."


class LoadedModels:
    """The models used last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, LoadedModel] = OrderedDict()

    def get(self, folder: Path, *, root: Path) -> tuple[Key, LoadedModel]:
        """The model of a run below `root`, and a key that another model does not have."""
        try:
            manifest = (folder / "final" / MANIFEST).stat()
        except OSError:
            raise _refusal(f"{folder.name} has no model, or not any more") from None
        key = (str(folder), manifest.st_mtime_ns, manifest.st_size)
        if key not in self._kept:
            check_allowed(folder, root=root)
            self._kept[key] = load_model(folder)
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and self._is_too_much():
            self._kept.popitem(last=False)
        return key, self._kept[key]

    def _is_too_much(self) -> bool:
        total = sum(map(count_parameters, self._kept.values()))
        return len(self._kept) > MAX_KEPT or total > MAX_KEPT_PARAMETERS


def count_parameters(loaded: LoadedModel) -> int:
    return sum(parameter.numel() for parameter in loaded.model.parameters())


def check_allowed(folder: Path, *, root: Path) -> None:
    """Refuse a run whose model is not loaded over HTTP, in a sentence."""
    run = Run(folder)
    if not run.is_finished:
        raise _refusal(f"{folder.name} is not finished, so it has no model yet")
    if own := sorted(file.name for file in (folder / RUN_COPIES).glob("*.py")):
        raise _refusal(
            f"{folder.name} needs a person's own code ({', '.join(own[:3])}), and nothing that "
            "comes over HTTP runs it",
            hint="In a terminal: regard generate RUN --with FILE.",
        )
    final = folder / "final"
    for _ in range(MAX_BASES):
        if not final.resolve().is_relative_to(root.resolve()):
            raise _refusal(
                f"{folder.name} is an adapter for a model outside the folder of this page, which "
                "loads none"
            )
        config = read_config(final)
        _check_config(config, final, folder.name)
        if "base" not in config:
            _check_size(final, folder.name)
            return
        final = _base_folder(config["base"]["path"], final)
    raise _refusal(f"{folder.name} holds an adapter above more than {MAX_BASES} others")


def _base_folder(path: str, final: Path) -> Path:
    """Where an adapter's base model is, before anything of it is opened."""
    found = Path(path if path.startswith(PIP_PREFIX) else find_path(path, _candidates(final)))
    return found / "final" if Run(found).recipe_file.is_file() else found


def _candidates(final: Path) -> Candidates:
    return candidates_of_run(run_around(final))


def _check_size(final: Path, name: str) -> None:
    numbers = count_tensors(final / WEIGHTS_FILE).numbers
    if numbers > MAX_PARAMETERS:
        raise _refusal(
            f"{name} has {numbers:,} parameters; the page loads models of up to {MAX_PARAMETERS:,}",
            hint="In a terminal: regard generate RUN.",
        )


def _check_config(config: Mapping[str, Any], final: Path, name: str) -> None:
    if "imported" in config:
        raise _refusal(
            f"{name} stands on a model of another tool, and nothing that comes over HTTP loads one",
            hint="In a terminal: regard generate RUN.",
        )
    settings = saved_settings(config, final)
    if broken := broken_kinds(settings.model):
        raise _refusal(
            f"the attention of {name} is broken on purpose ({broken[0].traits.broken}): what it "
            "writes or answers means nothing"
        )
    task = config.get("task") or {}
    for setting in ("collection", "judgements"):
        if named := _files(task.get(setting)):
            raise _refusal(
                f"the task of {name} searches {named[0]}, a file outside the run: the page opens "
                "none",
                hint="In a terminal: regard predict RUN FILE.",
            )


def names_file(data: Data | None) -> bool:
    """Whether a task's data is anything but a built-in set."""
    return data is not None and bool(_files(data.model_dump()))


def _files(value: Any) -> list[str]:
    """What a setting names that is no built-in set."""
    if isinstance(value, Mapping):
        return [name for key in DATA_KEYS for name in _files(value.get(key))]
    names = value if isinstance(value, list | tuple) else [value]
    return [name for name in names if isinstance(name, str) and name not in BUILTIN.names()]


def _refusal(what: str, *, hint: str = "") -> UserError:
    return UserError(what, topic="playground", hint=hint)
