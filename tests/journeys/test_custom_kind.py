"""A newcomer's way: the kind of CONTRIBUTING.md as it stands there, checked and trained."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journeys.workspace import CommandResult, Workspace, file_digests

from regard.core import user_files

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
COSINE = {"kind": "cosine", "scale": 5.0}


def code_of_the_guide() -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.S | re.M)
    return code


def forget_all() -> None:
    """As in a new process, where nothing was named with --with yet."""
    for file in list(user_files._loaded.values()):
        user_files.unload(file)


@pytest.fixture(autouse=True)
def _nothing_loaded() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


@pytest.fixture
def own(workspace: Workspace) -> Workspace:
    """A workspace with the guide's kind and a recipe that names it."""
    workspace.write("my_kind.py", code_of_the_guide())
    workspace.recipe(model__attention=COSINE, train__max_steps=10)
    return workspace


def anew(workspace: Workspace, *words: str) -> CommandResult:
    forget_all()
    return workspace.invoke(*words)


def test_the_guides_kind_is_short_and_sound(own: Workspace) -> None:
    assert len(code_of_the_guide().splitlines()) < 40
    result = own.invoke("check", "my_kind.py", "--configurations", "10")
    assert result.exit_code == 0, result.stdout
    assert "attention cosine" in result.stdout


def test_it_is_listed_with_its_file(own: Workspace) -> None:
    listed = json.loads(own.run("ls", "attention", "--with", "my_kind.py", "--json"))
    (cosine,) = [row for row in listed if row["name"] == "cosine"]
    assert cosine["source"].endswith("my_kind.py:16")
    assert "my_kind.py:16" in own.run("ls", "attention", "--with", "my_kind.py")


def test_it_trains_and_the_run_keeps_it(own: Workspace) -> None:
    own.run("train", "tiny.toml", "--with", "my_kind.py")
    kept = own.folder / "runs" / "tiny" / "with" / "my_kind.py"
    assert kept.read_text() == code_of_the_guide()
    copy = ("--with", "runs/tiny/with/my_kind.py")
    own.run("evaluate", "runs/tiny", *copy)
    first = own.run("generate", "runs/tiny", "the cat", *copy, "--json")
    assert first == anew(own, "generate", "runs/tiny", "the cat", *copy, "--json").stdout
    assert anew(own, "report", "runs/tiny").exit_code == 0, "a report runs no code of the run"


def test_a_recipe_or_a_run_alone_never_runs_code(own: Workspace) -> None:
    own.write("my_kind.py", code_of_the_guide() + "\nopen('ran', 'a').write('x')\n")
    own.run("train", "tiny.toml", "--with", "my_kind.py")
    (own.folder / "ran").unlink()
    before = file_digests(own.folder / "runs")
    for words in (
        ("train", "tiny.toml", "--out", "runs/other"),
        ("validate", "tiny.toml"),
        ("train", "runs/tiny", "--resume"),
        ("generate", "runs/tiny"),
        ("generate", "runs/tiny/final"),
        ("generate", "runs/tiny/checkpoints/step-000010"),
        ("evaluate", "runs/tiny"),
    ):
        result = anew(own, *words)
        assert result.exit_code == 2, words
        assert "unknown attention 'cosine'" in result.error
        if "runs/tiny" in words[1]:
            assert result.error.endswith("add --with runs/tiny/with/my_kind.py")
    assert not (own.folder / "ran").exists()
    assert file_digests(own.folder / "runs") == before


def test_another_version_of_the_kind_is_refused_by_its_run(own: Workspace) -> None:
    own.run("train", "tiny.toml", "--with", "my_kind.py")
    own.write("my_kind.py", code_of_the_guide().replace("self.scale *", "0.5 * self.scale *"))
    for words in (
        ("train", "runs/tiny", "--resume"),
        ("generate", "runs/tiny"),
        ("evaluate", "runs/tiny"),
    ):
        result = anew(own, *words, "--with", "my_kind.py")
        assert result.exit_code == 2
        assert "my_kind.py differs from the file that runs/tiny was trained with" in result.error
        assert "--with runs/tiny/with/my_kind.py" in result.error


@pytest.mark.long
def test_an_edited_kind_pretrains_anew(own: Workspace) -> None:
    """A start is taken as it is only where the same code made it."""
    own.recipe("first.toml", name="first", model__attention=COSINE, train__max_steps=5)
    own.recipe("second.toml", name="second", start="first.toml", model=None, tokenizer=None)
    own.run("train", "second.toml", "--with", "my_kind.py")
    own.write("my_kind.py", code_of_the_guide().replace("self.scale *", "0.5 * self.scale *"))
    forget_all()
    own.run("train", "second.toml", "--with", "my_kind.py", "--out", "runs/third")
    firsts = [path.name for path in (own.folder / "runs").iterdir() if path.name[:5] == "first"]
    assert len(firsts) == 2


@pytest.mark.parametrize("verb", ["train", "validate"])
def test_a_file_that_cannot_be_loaded_stops_before_the_recipe(own: Workspace, verb: str) -> None:
    own.write("bad.py", "import nothing_like_it\n")
    result = own.invoke(verb, "tiny.toml", "--with", "bad.py")
    assert result.exit_code == 2
    assert "part: bad.py, line 1: ModuleNotFoundError" in result.error
    assert not (own.folder / "runs").exists()
