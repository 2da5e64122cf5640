"""A catalogue finds the files of its home by itself, and holds each name once."""

import sys
from pathlib import Path

import pytest

from regard.core.catalog import Catalog
from regard.core.errors import UserError

PART = '''
from {home} import SHAPES

@SHAPES.add("{name}", sides={sides})
def {name}():
    """A {name}.

    More about it."""
'''


@pytest.fixture
def shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalogue at home in a package of two files."""
    home = "shapes_of_a_test"
    package = tmp_path / home
    package.mkdir()
    (package / "__init__.py").write_text(
        f'from regard.core.catalog import Catalog\n\nSHAPES = Catalog("shape", home="{home}")\n'
    )
    for name, sides in (("triangle", 3), ("square", 4)):
        (package / f"{name}.py").write_text(PART.format(home=home, name=name, sides=sides))
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__(home).SHAPES
    for name in [name for name in sys.modules if name.partition(".")[0] == home]:
        del sys.modules[name]


def test_files_of_the_home_are_found(shapes: Catalog) -> None:
    assert shapes.names() == ["square", "triangle"]
    assert [entry.properties["sides"] for entry in shapes] == [4, 3]


def test_nothing_is_imported_before_the_first_look(shapes: Catalog) -> None:
    assert "shapes_of_a_test.square" not in sys.modules
    shapes.get("triangle")
    assert "shapes_of_a_test.square" in sys.modules


def test_an_entry_says_what_it_is_and_where_it_stands(shapes: Catalog) -> None:
    entry = shapes.get("square")
    assert entry.summary == "A square."
    assert entry.source.endswith("shapes_of_a_test/square.py:4")


def test_an_unknown_name_is_answered_with_a_guess(shapes: Catalog) -> None:
    with pytest.raises(UserError, match=r"unknown shape 'sqare' — did you mean square\?"):
        shapes.get("sqare")


def test_a_name_is_taken_once(shapes: Catalog) -> None:
    shapes.names()
    with pytest.raises(UserError, match=r"shape 'square': the name is taken by .*square\.py:4"):
        shapes.add("square")(lambda: None)


def test_what_add_decorates_stays_what_it_was(shapes: Catalog) -> None:
    def circle() -> None:
        """Round."""

    assert shapes.add("circle")(circle) is circle
    assert shapes.get("circle").part is circle
