"""`import regard`: cheap, and every public name leads somewhere."""

import subprocess
import sys
from types import ModuleType

import pytest

import regard


def test_importing_costs_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, regard; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "regard" in loaded
    assert not {"torch", "numpy", "pydantic", "pyarrow", "tokenizers", "rich", "typer"} & loaded


def test_the_interface_loads_what_every_experiment_needs_and_no_more() -> None:
    """`import regard.api` is torch and little beside it: statistics, tables, charts come later."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys, regard.api; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "torch" in loaded
    assert not {"scipy", "sklearn", "pyarrow", "pandas", "altair", "sacrebleu", "jinja2"} & loaded


@pytest.mark.parametrize("name", regard.__all__)
def test_every_public_name_resolves_and_is_documented(name: str) -> None:
    found = getattr(regard, name)
    if name != "__version__":
        assert found.__doc__
    if not isinstance(found, str | ModuleType):
        assert found.__module__.startswith("regard.")


def test_dir_is_the_public_names() -> None:
    assert dir(regard) == sorted(regard.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="attende"):
        _ = regard.attende  # type: ignore[attr-defined]


def test_the_version_is_the_packages_own() -> None:
    from importlib.metadata import version

    assert regard.__version__ == version("regard")
