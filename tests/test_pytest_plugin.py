"""`pytest --regard-audit` on the project of docs/pytest.md, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

import regard
from regard.audits.audited import AuditRequest, audit_request
from regard.core.errors import UserError

ROOT = Path(__file__).parent.parent

REPORT_MODULES = """
import sys

def pytest_unconfigure():
    loaded = [name for name in ("torch", "numpy", "regard.api") if name in sys.modules]
    print("LOADED", loaded)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The three files of the page, and the plugin as an installed package announces it."""
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    files = re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", page, flags=re.DOTALL)
    assert len(files) == 3
    folder = tmp_path / "project"
    folder.mkdir()
    for name, content in files:
        (folder / name).write_text(content)
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [(name, module)] = metadata["project"]["entry-points"]["pytest11"].items()
    installed = tmp_path / "site" / "announced-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{name} = {module}\n")
    return folder


def run_pytest(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = [str(project.parent / "site"), str(ROOT / "src")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_leak_fails_and_names_its_positions(project):
    with (project / "test_model.py").open("a") as file:
        file.write("\n\n@regard.audited\ndef nothing(): ...\n")
    result = run_pytest(project, "--regard-audit", "-v")
    assert result.returncode == 1, result.stdout + result.stderr
    outcomes = dict(re.findall(r"test_model.py::(\w+) (\w+)", result.stdout))
    failed = dict.fromkeys(["centred", "nothing"], "FAILED")
    assert outcomes == {"plain": "PASSED", "test_output_size": "PASSED"} | failed
    assert "NoneType" in result.stdout  # one sentence, without the frames of the audit
    assert "UserError" not in result.stdout
    assert "another exception" not in result.stdout
    assert re.search(r"position \d+ reacts to tokens? \d+", result.stdout)
    assert re.search(r"position \d+ depends on \d+: 0\.\d+", result.stdout)
    assert "Traceback" not in result.stdout


def test_without_the_option_audits_are_skipped_and_nothing_is_loaded(project):
    (project / "conftest.py").write_text(REPORT_MODULES)
    (project / "model.py").write_text("class TinyGPT: ...\n")
    result = run_pytest(project, "-rs", "-k", "not output")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "SKIPPED [2]" in result.stdout
    assert "--regard-audit" in result.stdout
    assert "LOADED []" in result.stdout


WITH_PARAMETERS = """
import pytest, regard

@regard.audited
@pytest.mark.parametrize("width", [8, 16])
def sized(width): ...

@pytest.fixture(params=["a", "b"])
def kind(request):
    return request.param

@regard.audited
def of_kind(kind): ...

class TestModels:
    @staticmethod
    @regard.audited
    def of_class(): ...
"""


def test_parameters_make_one_audit_each_and_static_methods_are_found(project):
    (project / "test_model.py").write_text(WITH_PARAMETERS)
    result = run_pytest(project, "--collect-only", "-q")
    collected = re.findall(r"test_model.py::(\S+)", result.stdout)
    assert collected == [
        *("sized[8]", "sized[16]", "of_kind[a]", "of_kind[b]"),
        "TestModels::of_class",
    ], result.stdout


def test_a_mark_leaves_the_function_as_it_is():
    def model() -> str:
        return "a model"

    assert regard.audited(mask="prefix:3", seed=2)(model) is model
    assert model() == "a model"
    assert audit_request(model) == AuditRequest(mask="prefix:3", seed=2)
    assert audit_request(regard.audited(lambda: None)) == AuditRequest()
    assert audit_request(lambda: None) is None


IN_UNITTEST = """
import unittest, regard

class Models(unittest.TestCase):
    @regard.audited
    def test_model(self): ...
"""


def test_marked_methods_of_unittest_are_refused(project):
    """unittest runs them itself: they would pass whatever they return."""
    (project / "test_model.py").write_text(IN_UNITTEST)
    result = run_pytest(project, "--regard-audit")
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Models.test_model cannot be audited: unittest runs it" in result.stdout
    assert "Traceback" not in result.stdout


@pytest.mark.parametrize("value", [type("Model", (), {}), partial(int), classmethod(int)])
def test_only_functions_are_marked(value):
    with pytest.raises(UserError, match="audited marks a function that returns a model"):
        regard.audited(value)
