"""From a command to its run folder, as `docs/architecture.md` lists it: the functions listed are
called, in this order."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import pytest
from tests.in_process_trainings import in_process_trainings as in_process_trainings
from tests.journeys.workspace import Workspace

import regard

ROOT = Path(__file__).parents[2]
SOURCE = Path(regard.__file__).parent
OPTIMIZED = 0x1
"Flag of a function's code, which a class body's lacks."
SMALL = {
    "mini-gpt": ("data.corpus=generated.txt", "tokenizer.vocabulary=300", "model.width=24"),
    "opinions": ("model.width=24",),
}
"Changes of the recipes, for less work; the way through is the same."


def listed(heading: str) -> list[str]:
    """`file.py:name` of each item of a list on the page."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split(f"### `{heading}`\n")[1].split("\n##")[0]
    hops = re.findall(r"^\d+\. `([\w/]+\.py:[\w.]+)` ", section, flags=re.MULTILINE)
    assert len(hops) == len(re.findall(r"^\d+\. ", section, flags=re.MULTILINE))
    return hops


@contextmanager
def first_calls() -> Iterator[list[str]]:
    """`file.py:qualified name` of each function of regard, in the order of their first calls."""
    calls: dict[str, None] = {}
    seen: dict[int, CodeType] = {}  # by id: comparing code is slow

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or id(code) in seen:
            return
        seen[id(code)] = code
        file = Path(code.co_filename)
        if file.is_relative_to(SOURCE) and code.co_flags & OPTIMIZED:
            name = f"{file.relative_to(SOURCE).as_posix()}:{code.co_qualname}"
            calls.setdefault(name)

    found: list[str] = []
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        found.extend(calls)


def check_order(hops: list[str], calls: list[str]) -> None:
    """Each hop is called, a class by its first method, and no sooner than the hop before it."""
    positions = {
        hop: next((n for n, call in enumerate(calls) if f"{call}.".startswith(f"{hop}.")), None)
        for hop in hops
    }
    assert [hop for hop, position in positions.items() if position is None] == []
    assert list(positions) == sorted(positions, key=lambda hop: positions[hop] or 0)
    files = [hop.partition(":")[0] for hop in hops]
    assert sorted(files) == sorted(set(files))


@pytest.mark.parametrize("recipe", SMALL)
def test_training_follows_the_page(workspace: Workspace, recipe: str) -> None:
    shutil.copy(ROOT / "recipes" / f"{recipe}.toml", workspace.folder)
    short = ("train.max_steps=2", "train.threads=1", *SMALL[recipe])
    changes = [word for change in short for word in ("--set", change)]
    with first_calls() as calls:
        result = workspace.invoke("train", f"{recipe}.toml", *changes)
    assert result.exit_code == 0, result.stderr
    check_order(listed(f"regard train recipes/{recipe}.toml"), calls)


@pytest.mark.usefixtures("in_process_trainings")
def test_a_study_follows_the_page(workspace: Workspace) -> None:
    shutil.copy(ROOT / "recipes" / "dot-vs-additive.toml", workspace.folder)
    recipe = workspace.recipe("small-gpt.toml", train__max_steps=2, model__context=8)
    study = tomllib.loads((workspace.folder / "dot-vs-additive.toml").read_text())
    assert study["base"] == recipe.name
    with first_calls() as calls:
        result = workspace.invoke("compare", "dot-vs-additive.toml", "--seeds", "0,1")
    assert result.exit_code == 0, result.stderr
    check_order(listed("regard compare recipes/dot-vs-additive.toml"), calls)
