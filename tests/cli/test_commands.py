"""The command line that people expect: help, version, quiet, completion, schema, piped output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.journeys.workspace import Workspace, generated_text

from regard import api
from regard.api.settings_schema import SCHEMAS, write_schema
from regard.cli import completion
from regard.cli.ascii_output import PLAIN, accept_any_character
from regard.cli.commands import GROUPS, app
from regard.cli.console import console, side_console
from regard.core.settings import all_settings
from regard.data.corpus import Data
from regard.lessons import LESSONS
from regard.lessons.exercise import exercise_names
from regard.runs.recipe import Recipe
from regard.studies.study import Study

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    fresh = Workspace(tmp_path)
    fresh.write("generated.txt", generated_text(60))
    fresh.recipe()
    return fresh


def test_help_lists_every_command_in_a_group_with_a_whole_sentence(workspace: Workspace) -> None:
    shown = workspace.run("--help")
    for heading, commands in GROUPS.items():
        section = shown.partition(f"\n{heading}:\n")[2].partition("\n\n")[0]
        for name in commands:
            assert f"\n  {name} " in f"\n{section}"
    assert "..." not in shown.partition("\n")[2]
    tree: Any = typer.main.get_command(app)
    listed = {name for commands in GROUPS.values() for name in commands}
    assert {name for name, command in tree.commands.items() if not command.hidden} == listed


def test_version_names_what_decides_how_a_training_computes(workspace: Workspace) -> None:
    lines = workspace.run("--version").splitlines()
    assert [line.split()[0] for line in lines] == ["regard", "Python", "torch", "kernels", "device"]


@pytest.mark.parametrize("words", [("--quiet", "validate"), ("validate", "--quiet")])
def test_quiet_prints_results_and_errors_alone(workspace: Workspace, words: Any) -> None:
    loud = workspace.invoke("validate", "tiny.toml", "--set", "train.lr=100")
    assert "train.lr" in loud.stderr
    quiet = workspace.invoke(*words, "tiny.toml", "--set", "train.lr=100")
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert "is valid" in quiet.stdout
    assert "train.lr" in workspace.invoke(*words, "tiny.toml", "--set", "train.lr=0").stderr


def test_quiet_after_two_dashes_is_a_value(workspace: Workspace) -> None:
    assert "--quiet" in workspace.invoke("train", "--", "--quiet").error


def test_piped_tables_are_neither_cut_nor_padded(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = workspace.run("ls")
    assert "…" not in shown
    for catalog in api.catalogs():
        for entry in catalog:
            assert f" {entry.name} " in shown
            assert " ".join(entry.summary.split()) in " ".join(shown.split())
    assert not [line for line in shown.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("columns", ["40", "80"])
def test_columns_sets_the_width_and_loses_no_name(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = workspace.run("ls")
    assert max(map(len, shown.splitlines())) <= int(columns)
    assert not {entry.name for catalog in api.catalogs() for entry in catalog} - set(shown.split())


def test_plurals_name_catalogues(workspace: Workspace) -> None:
    for plural, catalog in (("metrics", "metric"), ("families", "family"), ("corpora", "corpus")):
        assert workspace.run("ls", plural) == workspace.run("ls", catalog)


def test_no_color_takes_the_colours_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert not console().no_color
    monkeypatch.setenv("NO_COLOR", "1")
    assert console().no_color
    assert side_console().no_color


def test_ascii_terminals_get_the_nearest_character(tmp_path: Path) -> None:
    with (tmp_path / "out.txt").open("w", encoding="ascii") as file:
        accept_any_character(file)
        file.write("■ · — … 漢")
    assert (tmp_path / "out.txt").read_text() == "# . - ... ?"
    assert all(plain.isascii() for plain in PLAIN.values())


def complete(workspace: Workspace, line: str) -> list[str]:
    """What bash is offered; the modules that were loaded are checked."""
    words = line.split(" ")
    code = (
        "import atexit, sys\n"
        "heavy = ('torch', 'numpy', 'regard.core.settings', 'rich.console')\n"
        "atexit.register(lambda: print([n for n in heavy if n in sys.modules], file=sys.stderr))\n"
        "sys.argv = ['regard']\n"
        "from regard.cli.app import main\n"
        "main()\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=workspace.folder,
        env=os.environ
        | {
            "_REGARD_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
    )
    assert found.stderr.strip() == "[]"
    return found.stdout.split()


def test_completion_offers_commands_and_runs_and_loads_nothing_heavy(workspace: Workspace) -> None:
    workspace.write("runs/first/recipe.toml", "")
    assert complete(workspace, "regard gen") == ["generate"]
    assert complete(workspace, "regard generate ru") == ["runs/first"]


def test_completion_of_files_runs_and_names(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace.folder)
    for run in ("runs/first", "runs/study/dot/seed-0"):
        workspace.write(f"{run}/recipe.toml", "")
    workspace.write("runs/study/study.toml", "")
    workspace.write("recipes/a.toml", "")
    runs = ["runs/first", "runs/study", "runs/study/dot/seed-0"]
    assert completion.complete_run("") == runs
    assert completion.complete_run("runs/s") == runs[1:]
    assert completion.complete_run("rec") == ["recipes/"]
    assert completion.complete_recipe("") == ["recipes/", "runs/", "tiny.toml"]
    assert completion.complete_recipe("recipes/") == ["recipes/a.toml"]
    assert completion.complete_recipe("none/x") == []
    assert completion.complete_setting("train.warm") == ["train.warmup_ratio="]
    assert "model.attention.kind=dot" in completion.complete_setting("model.attention.kind=d")
    assert completion.complete_setting("train.lr=") == []


def test_completed_names_are_those_of_the_catalogues() -> None:
    assert set(completion.CATALOG_FOLDERS) == {catalog.name for catalog in api.catalogs()}
    for catalog in api.catalogs():
        assert completion.part_names(catalog.name) == catalog.names()
    assert completion.complete_lesson("") == LESSONS.names()
    assert completion.complete_exercise("") == sorted(exercise_names())


@pytest.mark.parametrize("of", ["recipe", "study"])
def test_schema_has_every_setting_with_its_documentation(workspace: Workspace, of: str) -> None:
    schema = json.loads(workspace.run("schema", of))
    cls = Recipe if of == "recipe" else Study
    for setting in all_settings(cls):
        table = schema
        for name in setting.key.split("."):
            table = table["properties"][name]
        assert table["description"] == setting.doc
    assert "null" not in json.dumps(schema["properties"]["name"])


def accepts(schema: dict[str, Any], value: Any, defs: dict[str, Any]) -> bool:
    """Enough of JSON Schema for what regard writes."""
    if "$ref" in schema:
        return accepts(defs[schema["$ref"].rpartition("/")[2]], value, defs)
    if "anyOf" in schema and not any(accepts(one, value, defs) for one in schema["anyOf"]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    types = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    if "type" in schema and not isinstance(value, types[schema["type"]]):
        return False
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return all(accepts(schema["items"], one, defs) for one in value)
    if not isinstance(value, dict) or "properties" not in schema:
        return True
    known = schema["properties"]
    if schema.get("additionalProperties") is False and value.keys() - known.keys():
        return False
    given = value.keys() >= set(schema.get("required", ()))
    return given and all(accepts(known[key], one, defs) for key, one in value.items())


def test_schema_accepts_the_recipes_and_refuses_their_typos() -> None:
    recipe, study = SCHEMAS["recipe"](), SCHEMAS["study"]()
    checked = 0
    for file in sorted(RECIPES.glob("*.toml")):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        schema = study if "base" in table else recipe
        assert accepts(schema, table, schema.get("$defs", {})), file.name
        assert not accepts(schema, {**table, "zzz": 1}, schema.get("$defs", {}))
        checked += 1
    assert checked > 5
    table = {"data": {"corpus": "a.txt"}, "model": {"family": "decoder", "layers": 2}}
    defs = recipe.get("$defs", {})
    assert accepts(recipe, table, defs)
    for wrong in ({"family": "bert"}, {"family": "decoder", "layrs": 2}, {"layers": "two"}):
        assert not accepts(recipe, {**table, "model": wrong}, defs)


def test_schema_is_written_beside_a_recipe(tmp_path: Path) -> None:
    line = write_schema("recipe", beside=tmp_path / "mine.toml")
    assert line.startswith("#:schema ./")
    file = tmp_path / line.removeprefix("#:schema ")
    assert "corpus" in json.loads(file.read_text())["properties"]["data"]["properties"]
    assert "corpus" in Data.model_fields


def test_schema_names_the_users_own_parts(workspace: Workspace) -> None:
    workspace.write(
        "mine.py",
        '"""Mine."""\n'
        "from regard.attention.kinds import kind\n"
        "from regard.attention.kinds.dot import Dot\n\n\n"
        '@kind("mine", cost="n")\nclass Mine(Dot):\n    """Mine."""\n',
    )
    assert '"mine"' in workspace.run("schema", "--with", "mine.py")
