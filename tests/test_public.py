"""`import regard` is cheap, and every public name resolves."""

import subprocess
import sys
from types import FunctionType, ModuleType

import pytest

import regard


def test_import_loads_no_heavy_module() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", "import sys, regard; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(completed.stdout.split())
    assert "regard" in loaded
    assert not {"torch", "numpy", "pydantic", "pyarrow", "tokenizers", "rich", "typer"} & loaded


def test_api_loads_torch_but_no_statistics_tables_or_charts() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", "import sys, regard.api; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(completed.stdout.split())
    assert "torch" in loaded
    assert not {"scipy", "sklearn", "pyarrow", "pandas", "altair", "sacrebleu", "jinja2"} & loaded


@pytest.mark.parametrize("name", regard.__all__)
def test_every_public_name_resolves_and_is_documented(name: str) -> None:
    found = getattr(regard, name)
    if name != "__version__":
        assert found.__doc__
    if not isinstance(found, str | ModuleType):
        assert found.__module__.startswith("regard.")


def test_no_submodule_shadows_a_public_name() -> None:
    """A package called `audit` would replace the function once anything imported it."""
    script = (
        "import importlib, pkgutil, regard\n"
        "before = {name: getattr(regard, name) for name in regard.__all__}\n"
        "for module in pkgutil.walk_packages(regard.__path__, 'regard.'):\n"
        "    if not module.name.rpartition('.')[2].startswith('_'):\n"
        "        importlib.import_module(module.name)\n"
        "print([name for name in regard.__all__ if getattr(regard, name) is not before[name]])"
    )
    completed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        *((name, FunctionType) for name in ("attend", "audit", "evaluate", "inspect", "ledger")),
        *((name, FunctionType) for name in ("load", "predict", "report", "train")),
        *((name, FunctionType) for name in ("compare", "lesson", "validate")),
        *((name, FunctionType) for name in ("import_model", "export_model")),
        *((name, type) for name in ("LoadedModel", "Recipe", "UserError")),
        ("mask", ModuleType),
    ],
)
def test_types_of_public_names(name: str, type_: type) -> None:
    assert isinstance(getattr(regard, name), type_)


def test_dir_lists_the_public_names() -> None:
    assert dir(regard) == sorted(regard.__all__)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="attende"):
        _ = regard.attende  # type: ignore[attr-defined]


def test_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert regard.__version__ == version("regard")
