"""A catalogue imports the modules of its home package and has unique names."""

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
    """A catalogue whose home package has two modules."""
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


def test_modules_of_the_home_are_registered(shapes: Catalog) -> None:
    assert shapes.names() == ["square", "triangle"]
    assert [entry.properties["sides"] for entry in shapes] == [4, 3]


def test_home_is_imported_at_the_first_lookup(shapes: Catalog) -> None:
    assert "shapes_of_a_test.square" not in sys.modules
    shapes.get("triangle")
    assert "shapes_of_a_test.square" in sys.modules


def test_entry_has_a_summary_and_a_source_location(shapes: Catalog) -> None:
    entry = shapes.get("square")
    assert entry.summary == "A square."
    assert entry.source.endswith("shapes_of_a_test/square.py:4")


def test_unknown_name_suggests_a_close_one(shapes: Catalog) -> None:
    with pytest.raises(UserError, match=r"shape 'sqare'.* square\b"):
        shapes.get("sqare")


def test_names_are_unique(shapes: Catalog) -> None:
    shapes.names()
    with pytest.raises(UserError, match=r"shape 'square': the name is taken .*square\.py:4"):
        shapes.add("square")(lambda: None)


def test_add_returns_the_decorated_object(shapes: Catalog) -> None:
    def circle() -> None:
        """Round."""

    assert shapes.add("circle")(circle) is circle
    assert shapes.get("circle").part is circle
