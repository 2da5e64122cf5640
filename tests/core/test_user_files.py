"""Parts in a person's own file: loaded once, by name of the file alone, and never half."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard.core import user_files
from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.user_files import (
    UserFile,
    check_same_code,
    copy_to_run,
    files_used_by,
    load_user_files,
    suggest_run_files,
    unload,
)

HOME = "colours_of_a_test"
PART = '''"""A colour."""

from colours_of_a_test import COLOURS


@COLOURS.add("{name}", warm=True)
def paint():
    """{says}"""
'''


@pytest.fixture
def colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """A catalogue that holds `blue`, at home in a package."""
    package = tmp_path / "home" / HOME
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f'from regard.core.catalog import Catalog\n\nCOLOURS = Catalog("colour", home="{HOME}")\n'
    )
    (package / "blue.py").write_text(PART.format(name="blue", says="Blue."))
    monkeypatch.syspath_prepend(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    before = dict(user_files._loaded)
    yield __import__(HOME).COLOURS
    for file in [f for digest, f in user_files._loaded.items() if digest not in before]:
        unload(file)
    for name in [name for name in sys.modules if name.partition(".")[0] == HOME]:
        del sys.modules[name]


def loaded(colours: Catalog, name: str, text: str) -> UserFile:
    Path(name).write_text(text)
    (file,) = load_user_files([name], [colours])
    return file


def red(says: str = "Red.") -> str:
    return PART.format(name="red", says=says)


def test_a_file_adds_its_parts(colours: Catalog) -> None:
    file = loaded(colours, "my colour.py", red())
    assert [part.name for part in file.parts] == ["red"]
    assert colours.names() == ["blue", "red"]
    assert colours.get("red").summary == "Red."
    assert colours.get("red").source.endswith("my colour.py:6")


def test_the_same_code_is_loaded_once_wherever_it_stands(colours: Catalog) -> None:
    first = loaded(colours, "mine.py", red())
    assert loaded(colours, "mine.py", red()) is first
    assert loaded(colours, "copy.py", red()) is first


def test_an_edited_file_takes_the_place_of_what_it_was(colours: Catalog) -> None:
    loaded(colours, "mine.py", red())
    loaded(colours, "mine.py", red("Redder."))
    assert colours.get("red").summary == "Redder."
    assert colours.names() == ["blue", "red"]


def test_a_file_that_is_at_home_already_is_not_run_again(colours: Catalog, tmp_path: Path) -> None:
    (file,) = load_user_files([tmp_path / "home" / HOME / "blue.py"], [colours])
    assert [part.name for part in file.parts] == ["blue"]
    assert files_used_by({"wall": "blue"}) == []
    assert colours.names() == ["blue"]


def test_nothing_is_left_beside_the_file(colours: Catalog) -> None:
    loaded(colours, "mine.py", red())
    assert {path.name for path in Path().iterdir()} == {"home", "mine.py"}


def test_a_taken_name_is_said_with_both_places(colours: Catalog) -> None:
    with pytest.raises(UserError) as refused:
        loaded(colours, "mine.py", PART.format(name="blue", says="Mine."))
    assert "mine.py, line 6: colour 'blue': the name is taken by" in str(refused.value)
    assert "blue.py:6" in str(refused.value)


def test_two_files_cannot_share_a_name(colours: Catalog) -> None:
    loaded(colours, "mine.py", red())
    with pytest.raises(UserError, match=r"other\.py, line 6: .* is taken by .*mine\.py:6"):
        loaded(colours, "other.py", red("Other."))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\ny = undefined\n", "mine.py, line 2: NameError: name 'undefined' is not defined"),
        ("def f(:\n", "mine.py, line 1: SyntaxError: "),
        ("import a_neighbour\n", "line 1: ModuleNotFoundError: No module named 'a_neighbour'. A f"),
        ("raise SystemExit(3)\n", "mine.py, line 1: SystemExit: 3"),
        ("def f():\n    return 1 / 0\n\nf()\n", "line 2: ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_fails_is_said_in_a_sentence(colours: Catalog, text: str, says: str) -> None:
    with pytest.raises(UserError) as refused:
        loaded(colours, "mine.py", text)
    assert says in str(refused.value)
    assert str(refused.value).startswith("part: ")


def test_a_file_that_fails_half_way_leaves_nothing_behind(colours: Catalog) -> None:
    with pytest.raises(UserError):
        loaded(colours, "mine.py", red() + "\nundefined\n")
    assert colours.names() == ["blue"]
    loaded(colours, "mine.py", red())
    assert colours.names() == ["blue", "red"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone.py", "does not exist"),
        (".", "cannot be read"),
        ("b.py", "not text"),
        ("b", "is no Python file"),
    ],
)
def test_what_is_no_file_of_text_is_refused(colours: Catalog, name: str, says: str) -> None:
    for file in ("b", "b.py"):
        Path(file).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=says):
        load_user_files([name], [colours])


def test_futures_of_the_loader_do_not_reach_the_file(colours: Catalog) -> None:
    """`from __future__ import annotations` here would turn the file's annotations into strings."""
    file = loaded(colours, "mine.py", red() + "\npaint.kept = (lambda x: x)\nx: int = 1\n")
    module = sys.modules[file.parts[0].part.__module__]
    assert module.__annotations__ == {"x": int}


def test_a_recipe_uses_the_files_whose_parts_it_names(colours: Catalog) -> None:
    file = loaded(colours, "mine.py", red())
    assert files_used_by({"model": {"wall": {"kind": "red"}}}) == [file]
    assert files_used_by({"data": {"corpus": ["a", "red"]}}) == [file]
    assert files_used_by({"model": {"red": "blue"}}) == []


def test_a_run_keeps_what_it_uses_and_knows_it_again(colours: Catalog, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.toml").touch()
    first = loaded(colours, "mine.py", red())
    copy_to_run([first], run)
    assert (run / "with" / "mine.py").read_bytes() == Path("mine.py").read_bytes()
    check_same_code([first], run)
    check_same_code([first], run / "final")
    edited = loaded(colours, "mine.py", red("Redder."))
    for place in (run, run / "final", run / "checkpoints" / "step-000005"):
        with pytest.raises(UserError) as refused:
            check_same_code([edited], place)
        assert f"--with {run / 'with' / 'mine.py'}" in str(refused.value)


def test_two_files_of_one_name_are_both_kept(colours: Catalog, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for folder in (run, tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
    one = loaded(colours, "a/mine.py", red())
    other = loaded(colours, "b/mine.py", PART.format(name="green", says="Green."))
    copy_to_run([one, other], run)
    assert {path.read_bytes() for path in (run / "with").iterdir()} == {one.content, other.content}


def test_an_unknown_part_of_a_run_is_answered_with_its_own_file(
    colours: Catalog, tmp_path: Path
) -> None:
    run = tmp_path / "my run"
    run.mkdir()
    (run / "recipe.toml").touch()
    file = loaded(colours, "mine.py", red())
    copy_to_run([file], run)
    unload(file)
    with pytest.raises(UserError) as refused, suggest_run_files(run):
        colours.get("red")
    assert str(refused.value) == (
        "unknown colour 'red'. It comes from a file of the run's own: "
        f"add --with '{run}/with/mine.py'"
    )
    with pytest.raises(UserError, match="known: blue"), suggest_run_files(tmp_path):
        colours.get("red")
