"""User files: loaded once, registered completely or not at all, copied into runs."""

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
    """{summary}"""
'''


@pytest.fixture
def colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """A catalogue with `blue` in its home package."""
    package = tmp_path / "home" / HOME
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f'from regard.core.catalog import Catalog\n\nCOLOURS = Catalog("colour", home="{HOME}")\n'
    )
    (package / "blue.py").write_text(PART.format(name="blue", summary="Blue."))
    monkeypatch.syspath_prepend(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    before = dict(user_files._loaded)
    yield __import__(HOME).COLOURS
    for file in [f for digest, f in user_files._loaded.items() if digest not in before]:
        unload(file)
    for name in [name for name in sys.modules if name.partition(".")[0] == HOME]:
        del sys.modules[name]


def load_file(colours: Catalog, name: str, text: str) -> UserFile:
    Path(name).write_text(text)
    (file,) = load_user_files([name], [colours])
    return file


def red(summary: str = "Red.") -> str:
    return PART.format(name="red", summary=summary)


def test_file_registers_its_parts(colours: Catalog) -> None:
    file = load_file(colours, "my colour.py", red())
    assert [part.name for part in file.parts] == ["red"]
    assert colours.names() == ["blue", "red"]
    assert colours.get("red").summary == "Red."
    assert colours.get("red").source.endswith("my colour.py:6")


def test_same_code_is_loaded_once_whatever_its_path(colours: Catalog) -> None:
    first = load_file(colours, "mine.py", red())
    assert load_file(colours, "mine.py", red()) is first
    assert load_file(colours, "copy.py", red()) is first


def test_edited_file_replaces_its_earlier_version(colours: Catalog) -> None:
    load_file(colours, "mine.py", red())
    load_file(colours, "mine.py", red("Redder."))
    assert colours.get("red").summary == "Redder."
    assert colours.names() == ["blue", "red"]


def test_file_of_the_home_package_is_not_run_again(colours: Catalog, tmp_path: Path) -> None:
    (file,) = load_user_files([tmp_path / "home" / HOME / "blue.py"], [colours])
    assert [part.name for part in file.parts] == ["blue"]
    assert files_used_by({"wall": "blue"}) == []
    assert colours.names() == ["blue"]


def test_no_bytecode_is_written_beside_the_file(colours: Catalog) -> None:
    load_file(colours, "mine.py", red())
    assert {path.name for path in Path().iterdir()} == {"home", "mine.py"}


def test_taken_name_error_locates_both_definitions(colours: Catalog) -> None:
    with pytest.raises(UserError) as caught:
        load_file(colours, "mine.py", PART.format(name="blue", summary="Mine."))
    assert "mine.py, line 6: colour 'blue': the name is taken" in str(caught.value)
    assert "blue.py:6" in str(caught.value)


def test_two_files_cannot_register_the_same_name(colours: Catalog) -> None:
    load_file(colours, "mine.py", red())
    with pytest.raises(UserError, match=r"other\.py, line 6: .*the name is taken .*mine\.py:6"):
        load_file(colours, "other.py", red("Other."))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = undefined\n", "mine.py, line 2: NameError: name 'undefined' is not defined"),
        ("def f(:\n", "mine.py, line 1: SyntaxError: "),
        ("import a_neighbour\n", "line 1: ModuleNotFoundError: No module named 'a_neighbour'. A f"),
        ("raise SystemExit(3)\n", "mine.py, line 1: SystemExit: 3"),
        ("def f():\n    return 1 / 0\n\nf()\n", "line 2: ZeroDivisionError: division by zero"),
    ],
)
def test_failing_file_is_an_error_with_its_line(colours: Catalog, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_file(colours, "mine.py", text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("part: ")


def test_file_that_fails_half_way_registers_nothing(colours: Catalog) -> None:
    with pytest.raises(UserError):
        load_file(colours, "mine.py", red() + "\nundefined\n")
    assert colours.names() == ["blue"]
    load_file(colours, "mine.py", red())
    assert colours.names() == ["blue", "red"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.py", "does not exist"),
        (".", "cannot be read"),
        ("b.py", "not text"),
        ("b", "is not a Python file"),
    ],
)
def test_unreadable_files_are_refused(colours: Catalog, name: str, message: str) -> None:
    for file in ("b", "b.py"):
        Path(file).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=message):
        load_user_files([name], [colours])


def test_future_imports_of_the_loader_do_not_apply_to_the_file(colours: Catalog) -> None:
    """`from __future__ import annotations` here would turn the file's annotations into strings."""
    file = load_file(colours, "mine.py", red() + "\npaint.kept = (lambda x: x)\nx: int = 1\n")
    module = sys.modules[file.parts[0].part.__module__]
    assert module.__annotations__ == {"x": int}


def test_files_used_by_a_recipe(colours: Catalog) -> None:
    file = load_file(colours, "mine.py", red())
    assert files_used_by({"model": {"wall": {"kind": "red"}}}) == [file]
    assert files_used_by({"data": {"corpus": ["a", "red"]}}) == [file]
    assert files_used_by({"model": {"red": "blue"}}) == []


def test_run_copies_its_files_and_refuses_other_versions(colours: Catalog, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.toml").touch()
    first = load_file(colours, "mine.py", red())
    copy_to_run([first], run)
    assert (run / "with" / "mine.py").read_bytes() == Path("mine.py").read_bytes()
    check_same_code([first], run)
    check_same_code([first], run / "final")
    edited = load_file(colours, "mine.py", red("Redder."))
    for folder in (run, run / "final", run / "checkpoints" / "step-000005"):
        with pytest.raises(UserError) as caught:
            check_same_code([edited], folder)
        assert f"--with {run / 'with' / 'mine.py'}" in str(caught.value)


def test_two_files_of_the_same_name_are_both_copied(colours: Catalog, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for folder in (run, tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
    one = load_file(colours, "a/mine.py", red())
    other = load_file(colours, "b/mine.py", PART.format(name="green", summary="Green."))
    copy_to_run([one, other], run)
    assert {path.read_bytes() for path in (run / "with").iterdir()} == {one.content, other.content}


def test_unknown_part_of_a_run_suggests_the_stored_file(colours: Catalog, tmp_path: Path) -> None:
    run = tmp_path / "my run"
    run.mkdir()
    (run / "recipe.toml").touch()
    file = load_file(colours, "mine.py", red())
    copy_to_run([file], run)
    unload(file)
    with pytest.raises(UserError) as caught, suggest_run_files(run):
        colours.get("red")
    assert "colour 'red'" in str(caught.value)
    assert str(caught.value).endswith(f"--with '{run}/with/mine.py'")
    with pytest.raises(UserError, match="known: blue"), suggest_run_files(tmp_path):
        colours.get("red")
