"""The pages of four roles: every command runs as it stands there, and so does README's second way.

Only the trainings are shorter: between two commands the recipes that lie in the folder are cut to a
few steps on a few rows.
"""

from __future__ import annotations

import contextlib
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
import tomli_w
from tests.in_process_trainings import in_process_trainings
from tests.journeys.workspace import Workspace

__all__ = ["in_process_trainings"]

ROOT = Path(__file__).parents[2]
PAGES = ("own-data", "own-attention", "own-course", "own-model")
MAX_COMMANDS = 10
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE_NAME = re.compile(r"`([\w./-]+\.\w+)`[^`\n]*:\s*$")
FAILING = {
    "regard audit model.py:centred": 1,
    "regard exercise copying --answer class --out marks.csv": 1,
}
"Commands that end with another exit code than 0, as their pages say."
EXACT = ("regard new", "regard corpus", "regard exercise")
"Commands whose output does not depend on the machine, as far as a page shows it."
FEW_STEPS = {"max_steps": 3, "evaluate_every": 0, "checkpoint_every": 0, "threads": 1}


class Command(NamedTuple):
    words: list[str]
    shown: list[str]
    "The lines of output below it."


class File(NamedTuple):
    name: str
    content: str


def steps(text: str) -> Iterator[Command | File]:
    """The files and commands of a page, in order."""
    for block in BLOCK.finditer(text):
        content = block[2]
        if content.startswith("$ "):
            for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                line, *shown = part.splitlines()
                yield Command(shlex.split(line), shown)
        elif named := FILE_NAME.search(text[: block.start()].rstrip()):
            yield File(named[1], content)


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def commands(text: str) -> list[list[str]]:
    return [step.words for step in steps(text) if isinstance(step, Command)]


def shorten_recipes(folder: Path) -> None:
    for file in folder.rglob("*.toml"):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        if "runs" in file.parts:
            continue
        if "base" in table:
            table["seeds"] = [0]
        if "data" in table:
            table["data"]["limit"] = 300
            table["model"] |= {"layers": 1, "heads": 2, "width": 16}
            table["train"] = {**table["train"], **FEW_STEPS}
            table["train"].pop("epochs", None)
            table["evaluate"] = {"documents": 50}
        file.write_text(tomli_w.dumps(table), encoding="utf-8")


def run_script(workspace: Workspace, script: str) -> None:
    with (
        contextlib.chdir(workspace.folder),
        mock.patch.object(sys, "path", [str(workspace.folder), *sys.path]),
        mock.patch.dict(sys.modules),
    ):
        runpy.run_path(script, run_name="__main__")


def run_page(workspace: Workspace, text: str) -> None:
    for step in steps(text):
        if isinstance(step, File):
            workspace.write(step.name, step.content)
            continue
        typed = shlex.join(step.words)
        program, *arguments = step.words
        shorten_recipes(workspace.folder)
        if program == "python":
            run_script(workspace, *arguments)
            continue
        assert program == "regard"
        result = workspace.invoke(*arguments)
        assert result.exit_code == FAILING.get(typed, 0), f"{typed}: {result.stderr}"
        if typed.startswith(EXACT):
            printed = result.stdout.splitlines()
            # The model depends on what is installed.
            shown = [line for line in step.shown if "model:" not in line and line.strip() != "…"]
            assert [line for line in shown if line not in printed] == [], typed


@pytest.fixture
def folder_of_repository(workspace: Workspace) -> Workspace:
    """What a reader of a page has: the recipes, and the example of CONTRIBUTING.md."""
    workspace.write("recipes/small-gpt.toml", (ROOT / "recipes/small-gpt.toml").read_bytes())
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    workspace.write("my_kind.py", next(b[2] for b in BLOCK.finditer(guide) if b[1] == "python"))
    return workspace


@pytest.mark.parametrize(
    "name", [*PAGES[:2], *(pytest.param(name, marks=pytest.mark.long) for name in PAGES[2:])]
)
@pytest.mark.usefixtures("in_process_trainings")
def test_every_command_of_a_page_runs(
    folder_of_repository: Workspace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.lessons.page.draw_inline_charts", lambda *_: [])
    text = page(name)
    assert 4 <= len(commands(text)) <= MAX_COMMANDS
    run_page(folder_of_repository, text)


def test_the_second_way_of_readme_is_the_page_of_own_data() -> None:
    """So its commands are executed too."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    tour = readme.index("## A tour")
    second = readme[readme.index("## Your own CSV") : tour]
    assert readme.index("make demo") < readme.index("## Your own CSV") < tour
    shown, executed = (
        {tuple(step.words): step.shown for step in steps(text) if isinstance(step, Command)}
        for text in (second, page("own-data"))
    )
    assert len(shown) == 5
    [printf] = (words for words in shown if words[0] == "printf")
    del shown[printf]
    [mine] = (step.content for step in steps(page("own-data")) if isinstance(step, File))
    assert printf[1].replace("\\n", "\n") == mine
    assert printf[2:] == (">", "mine.csv")
    for words, lines in shown.items():
        assert [line for line in lines if line.strip() != "…" and line not in executed[words]] == []
    for name in PAGES:
        assert f"docs/{name}.md" in readme
