"""Every pinned package is under a licence that lets regard depend on it; read offline."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

PINNED = [
    line.partition("==")[0].strip()
    for line in Path(__file__).parents[1].joinpath("constraints.txt").read_text("utf-8").split("\n")
    if "==" in line and not line.startswith("#")
]
PERMISSIVE = re.compile(
    r"(Apache|MIT|BSD|0BSD|ISC|PSF|Python Software Foundation|Zlib|CC0|BSL|CNRI|LLVM)",
    re.IGNORECASE,
)
FILE_BY_FILE = re.compile(r"(MPL|Mozilla Public)", re.IGNORECASE)
"Copyleft for the package's own files, which are not changed or copied here."
FORBIDDEN = re.compile(
    r"\b(A?GPL|General Public|SSPL|Commons Clause|Non-?Commercial)", re.IGNORECASE
)


def licence(package: str) -> str:
    """As the package gives it: expression, classifiers, or first line of its text."""
    found = metadata.metadata(package)
    classifiers = [one for one in found.get_all("Classifier") or () if one.startswith("License")]
    given = found.get("License-Expression") or "; ".join(classifiers) or found.get("License") or ""
    for file in metadata.files(package) or () if not given else ():
        if file.name in found.get_all("License-File", ()):
            given = file.read_text().strip()
    return given.strip().partition("\n")[0]


@pytest.mark.parametrize("package", PINNED)
def test_licence_of_a_pinned_package_is_known(package: str) -> None:
    try:
        given = licence(package)
    except metadata.PackageNotFoundError:
        pytest.skip("not installed here")
    assert PERMISSIVE.search(given) or FILE_BY_FILE.search(given), given or "no licence"
    assert not FORBIDDEN.search(given)
