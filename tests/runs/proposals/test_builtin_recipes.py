"""The recipes that come with regard: listed, copied, and in a wheel that is far from the clone."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.journeys.workspace import Workspace

from regard.core.toml import read_toml
from regard.runs.proposals.builtin_recipes import builtin_recipes, copy_builtin_recipes, summary
from regard.runs.recipe import Recipe

ROOT = Path(__file__).parents[3]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_the_missing_recipe_of_a_readme_leads_to_the_copy_that_trains(workspace: Workspace) -> None:
    failed = workspace.invoke("validate", "recipes/opinions.toml")
    assert failed.exit_code == 2
    assert "`regard recipes --out recipes`" in failed.stderr
    assert "opinions.toml" in workspace.run("recipes")
    workspace.run("recipes", "--out", "recipes")
    assert "is valid" in workspace.run("validate", "recipes/opinions.toml")


def test_every_recipe_is_listed_with_what_it_is_for() -> None:
    found = builtin_recipes()
    assert set(found) == {
        path.relative_to(ROOT / "recipes").as_posix() for path in ROOT.glob("recipes/**/*.toml")
    }
    assert {name for name, file in found.items() if len(summary(file)) < 15} == set()


def test_a_copy_keeps_what_is_there_and_names_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "opinions.toml").write_text("mine")
    copied, kept = copy_builtin_recipes(tmp_path)
    assert (tmp_path / "opinions.toml").read_text() == "mine"
    assert [path.name for path in kept] == ["opinions.toml"]
    assert len(copied) == len(builtin_recipes()) - 1
    for path in copied:
        if base := read_toml(path, topic="recipe").table.get("base"):
            assert isinstance(Recipe.load(path.parent / base), Recipe)


def test_a_file_in_the_place_of_the_folder_is_one_sentence(workspace: Workspace) -> None:
    workspace.write("recipes", "a file")
    assert "recipes is a file" in workspace.invoke("recipes", "--out", "recipes").error


def test_a_wheel_has_them_without_the_clone(tmp_path: Path) -> None:
    if int(importlib.metadata.version("setuptools").partition(".")[0]) < 77:
        pytest.skip("setuptools is older than 77: it cannot read pyproject.toml")
    library = tmp_path / "site" / "packages"
    build = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(library)]
    egg = ["egg_info", "--egg-base", str(tmp_path)]
    subprocess.run([*build[:3], *egg, *build[3:]], cwd=ROOT, check=True, capture_output=True)
    code = (
        "import regard; from regard.runs.proposals.builtin_recipes import builtin_recipes;"
        "print(regard.__file__, *builtin_recipes(), sep='\\n')"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(library)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert Path(found[0]).is_relative_to(library)
    assert found[1:] == list(builtin_recipes())
