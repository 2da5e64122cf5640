"""The attention kind of CONTRIBUTING.md, verbatim: checked, listed, trained, saved with its run."""

import json
import re
from pathlib import Path

import pytest
from tests.journeys.workspace import CommandResult, Workspace, file_digests

from regard.core import user_files

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
COSINE = {"kind": "cosine", "scale": 5.0}


def guide_code() -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.S | re.M)
    return code


def unload_all() -> None:
    """As in a new process, before any --with."""
    for file in list(user_files._loaded.values()):
        user_files.unload(file)


@pytest.fixture
def custom(workspace: Workspace) -> Workspace:
    """A workspace with the guide's kind and a recipe that uses it."""
    workspace.write("my_kind.py", guide_code())
    workspace.recipe(model__attention=COSINE, train__max_steps=10)
    return workspace


def invoke_fresh(workspace: Workspace, *arguments: str) -> CommandResult:
    unload_all()
    return workspace.invoke(*arguments)


def test_guide_kind_is_short_and_passes_all_contracts(custom: Workspace) -> None:
    assert len(guide_code().splitlines()) < 40
    result = custom.invoke("check", "my_kind.py", "--configurations", "10")
    assert result.exit_code == 0, result.stdout
    assert "attention cosine" in result.stdout


def test_custom_kind_is_listed_with_its_file(custom: Workspace) -> None:
    listed = json.loads(custom.run("ls", "attention", "--with", "my_kind.py", "--json"))
    (cosine,) = [row for row in listed if row["name"] == "cosine"]
    assert cosine["source"].endswith("my_kind.py:16")
    assert "my_kind.py:16" in custom.run("ls", "attention", "--with", "my_kind.py")


def test_run_stores_a_copy_of_the_custom_kind(custom: Workspace) -> None:
    custom.run("train", "tiny.toml", "--with", "my_kind.py")
    stored = custom.folder / "runs" / "tiny" / "with" / "my_kind.py"
    assert stored.read_text() == guide_code()
    copy = ("--with", "runs/tiny/with/my_kind.py")
    custom.run("evaluate", "runs/tiny", *copy)
    first = custom.run("generate", "runs/tiny", "the cat", *copy, "--json")
    assert first == invoke_fresh(custom, "generate", "runs/tiny", "the cat", *copy, "--json").stdout
    assert invoke_fresh(custom, "report", "runs/tiny").exit_code == 0, (
        "a report runs no custom code"
    )


def test_recipes_and_runs_alone_never_execute_code(custom: Workspace) -> None:
    custom.write("my_kind.py", guide_code() + "\nopen('ran', 'a').write('x')\n")
    custom.run("train", "tiny.toml", "--with", "my_kind.py")
    (custom.folder / "ran").unlink()
    before = file_digests(custom.folder / "runs")
    for arguments in (
        ("train", "tiny.toml", "--out", "runs/other"),
        ("validate", "tiny.toml"),
        ("train", "runs/tiny", "--resume"),
        ("generate", "runs/tiny"),
        ("generate", "runs/tiny/final"),
        ("generate", "runs/tiny/checkpoints/step-000010"),
        ("evaluate", "runs/tiny"),
    ):
        result = invoke_fresh(custom, *arguments)
        assert result.exit_code == 2, arguments
        assert "unknown attention 'cosine'" in result.error
        if "runs/tiny" in arguments[1]:
            assert result.error.endswith("add --with runs/tiny/with/my_kind.py")
    assert not (custom.folder / "ran").exists()
    assert file_digests(custom.folder / "runs") == before


def test_edited_kind_is_refused_by_its_run(custom: Workspace) -> None:
    custom.run("train", "tiny.toml", "--with", "my_kind.py")
    custom.write("my_kind.py", guide_code().replace("self.scale *", "0.5 * self.scale *"))
    for arguments in (
        ("train", "runs/tiny", "--resume"),
        ("generate", "runs/tiny"),
        ("evaluate", "runs/tiny"),
    ):
        result = invoke_fresh(custom, *arguments, "--with", "my_kind.py")
        assert result.exit_code == 2
        assert re.search("my_kind.py differs from .*runs/tiny", result.error)
        assert "--with runs/tiny/with/my_kind.py" in result.error


@pytest.mark.long
def test_edited_kind_repeats_the_pretraining(custom: Workspace) -> None:
    """A pretraining is reused only if the same code trained it."""
    custom.recipe("first.toml", name="first", model__attention=COSINE, train__max_steps=5)
    custom.recipe("second.toml", name="second", init_from="first.toml", model=None, tokenizer=None)
    custom.run("train", "second.toml", "--with", "my_kind.py")
    custom.write("my_kind.py", guide_code().replace("self.scale *", "0.5 * self.scale *"))
    unload_all()
    custom.run("train", "second.toml", "--with", "my_kind.py", "--out", "runs/third")
    pretrainings = [
        path.name for path in (custom.folder / "runs").iterdir() if path.name[:5] == "first"
    ]
    assert len(pretrainings) == 2


@pytest.mark.parametrize("command", ["train", "validate"])
def test_file_that_fails_to_import_is_refused(custom: Workspace, command: str) -> None:
    custom.write("bad.py", "import nothing_like_it\n")
    result = custom.invoke(command, "tiny.toml", "--with", "bad.py")
    assert result.exit_code == 2
    assert "part: bad.py, line 1: ModuleNotFoundError" in result.error
    assert not (custom.folder / "runs").exists()
