"""Generated pages are up to date, and what the documentation names exists."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from regard.studies.study import LoadedStudy

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date():
    for page, text in load(ROOT / "docs" / "generate.py").pages().items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: run `make docs`"


def test_catalogue_links_resolve():
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    files = [link for link in links if "://" not in link]
    assert [link for link in files if not (page.parent / link).exists()] == []


def test_every_promise_of_the_readme_links_to_its_test():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, promises = text.partition("## What it will not let you do quietly\n")
    lines = re.findall(r"^- .+$", promises.partition("\n## ")[0], flags=re.MULTILINE)
    assert len(lines) > 15
    assert [line for line in lines if "[test](tests/" not in line] == []


def test_every_setting_is_documented():
    undocumented = re.findall(
        r"^\| `([^`]+)` \|[^|]*\|\s*\|$",
        load(ROOT / "docs" / "generate.py").settings_page(),
        flags=re.MULTILINE,
    )
    assert undocumented == []


def test_studies_on_the_settings_page_are_read(tmp_path):
    page = load(ROOT / "docs" / "generate.py").settings_page()
    section = page[page.index("## Study") : page.index("\n## `")]
    for key in ("grid", "random.trials", "seeds.plan", "tune", "decides", "budget"):
        assert f"| `{key}` |" in section
    recipe = '[data]\ncorpus = "opinions"\n[model]\nfamily = "encoder"\nheads = 4\n'
    (tmp_path / "mine.toml").write_text(f'{recipe}[task]\nkind = "classification"\n')
    names = []
    for text in re.findall(r"^```toml\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE):
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        loaded = LoadedStudy.load(tmp_path / "study.toml")
        names.append([variant.name for variant in loaded.variants])
    grid, drawn = names
    assert grid[:2] == ["as-proposed", "lr=0.0005,width=32"]
    assert len(grid) == 1 + 4
    assert len(drawn) == 1 + 4


def test_architecture_page_lists_the_packages_from_top_to_bottom():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^  (\w+)(?:/|\.py) ", text, flags=re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert listed == [package for layer in layers for package in layer.split(" | ")]


def test_files_and_names_on_the_architecture_page_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    references = re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", text)
    assert len(references) > 30
    for file, name in references:
        home = ROOT if file.startswith(("benchmarks/", "tests/")) else ROOT / "src" / "regard"
        source = (home / file).read_text(encoding="utf-8")
        owner, _, method = name.partition(".")
        if owner:
            assert re.search(rf"^(class|def) {owner}\b", source, flags=re.MULTILINE), (file, name)
        if method:
            assert re.search(rf"^    def {method}\b", source, flags=re.MULTILINE), (file, name)


def test_recipes_and_packages_named_in_the_documentation_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    recipes = {
        name
        for page in pages
        for name in re.findall(r"(?<!/)\brecipes/[\w/-]+\.toml", page.read_text(encoding="utf-8"))
    }
    assert len(recipes) > 20
    assert [name for name in sorted(recipes) if not (ROOT / name).is_file()] == []
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    packages = re.findall(r"^\| [\w -]+ \| [^|]+ \| `([\w/]+)/` \|", guide, flags=re.MULTILINE)
    assert len(packages) == 9
    assert [name for name in packages if not (ROOT / "src" / "regard" / name).is_dir()] == []
