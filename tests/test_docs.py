"""Generated pages are current, and what the README names exists."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current():
    for page, text in load(ROOT / "docs" / "generate.py").pages().items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: run `make docs`"


def test_the_catalogue_links_to_what_it_names():
    text = load(ROOT / "docs" / "generate.py").catalogue_page()
    headings = {
        heading.lower().replace(": ", "-").replace(" ", "-")
        for heading in re.findall(r"^### (.+)$", text, flags=re.MULTILINE)
    }
    anchors = re.findall(r"\]\(#([^)]+)\)", text)
    assert set(anchors) == headings
    assert len(anchors) == len(set(anchors)) > 30
    sources = re.findall(r"\]\(\.\./(src/[^)]+)\)", text)
    assert len(sources) == len(anchors)
    assert all((ROOT / source).is_file() for source in sources)


def test_every_setting_is_documented():
    undocumented = re.findall(
        r"^\| `([^`]+)` \|[^|]*\|\s*\|$",
        load(ROOT / "docs" / "generate.py").settings_page(),
        flags=re.MULTILINE,
    )
    assert undocumented == []


def test_the_rooms_of_the_architecture_page_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^  (\w+)/ +(.+)$", text, flags=re.MULTILINE)
    assert len(rooms) >= 10
    for room, files in rooms:
        folder = ROOT / "src" / "regard" / room
        assert folder.is_dir(), room
        for name in re.findall(r"([a-z_]+)/?(?:\s|$)", re.sub(r"\(.*?\)", "", files)):
            if room != "cli":
                assert (folder / name).is_dir() or (folder / f"{name}.py").is_file(), (room, name)
