"""Groups reach the items, the estimates and the verdicts of a run, from the data on."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import regard
from regard.runs.items import read_items
from regard.runs.recipe import Recipe

SIZES = {"train": 30, "dev": 12, "test": 9}
"Authors, each with six texts."


def random_text(seed: int) -> str:
    """Words of which no two texts share many, so that none stands in training."""
    return " ".join(f"w{number}" for number in Random(seed).sample(range(200), 12))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("groups")
    number = 0
    for split, authors in SIZES.items():
        with (folder / f"{split}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["text", "label", "author", "id"])
            for _ in range(6 * authors):
                author = f"author {number // 6}"
                table.writerow([random_text(number), "ab"[number % 2], author, number])
                number += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        yield folder


def recipe_of(home: Path, group: str | None, **tables: Any) -> Recipe:
    data = {"corpus": "train", "dev": "dev", "test": "test"}
    data = {key: str(home / f"{split}.csv") for key, split in data.items()}
    recipe = {
        "name": "run",
        "data": data if group is None else data | {"group": group},
        "tokenizer": {"kind": "word"},
        "model": {"family": "decoder", "layers": 1, "heads": 2, "width": 16, "context": 16},
        "train": {"max_steps": 2, "batch_tokens": 200, "evaluate_every": 0, "threads": 1},
        "samples": {"prompts": [""], "max_new_tokens": 2},
    }
    return Recipe.from_table(recipe | tables)


def train(home: Path, group: str | None, **tables: Any) -> regard.Run:
    folder = home / "-".join(("run", str(group), *tables))
    return regard.train(recipe_of(home, group, **tables), out=folder)


CLASSIFICATION = {
    "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 16, "context": 16},
    "task": {"kind": "classification"},
}


@pytest.mark.parametrize("tables", [{}, CLASSIFICATION], ids=["perplexity", "classification"])
def test_scores_are_over_the_declared_groups(home: Path, tables: dict[str, Any]) -> None:
    run = train(home, "author", **tables)
    results = run.results()
    assert {row.split: row.groups for row in results.estimates} == SIZES
    items = {split: 6 * authors for split, authors in SIZES.items()}
    if not tables:  # a language model: of training, twice as many as of dev
        items["train"] = 2 * items["dev"]
    assert {row.split: row.n for row in results.estimates} == items
    verdicts = {row.split: row.verdict for row in results.comparisons}
    assert verdicts["test"] == "on too few items to compare with"
    assert verdicts["dev"] != verdicts["test"]
    assert any("9 groups" in remark for remark in results.remarks)
    rows = read_items(run.folder, "dev")
    assert len({row["group"] for row in rows}) == 12
    assert [row["group"] == rows[0]["group"] for row in rows[:7]] == [True] * 6 + [False]
    assert regard.evaluate(run.folder).estimates == results.estimates


@pytest.mark.parametrize("tables", [{}, CLASSIFICATION], ids=["perplexity", "classification"])
def test_groups_of_one_row_change_nothing(home: Path, tables: dict[str, Any]) -> None:
    alone, undeclared = (train(home, group, **tables) for group in ("id", None))
    assert {row.groups for row in alone.results().estimates} == {None}
    assert alone.results().estimates == undeclared.results().estimates
    assert alone.results().comparisons == undeclared.results().comparisons
    assert {row["group"] for row in read_items(undeclared.folder, "dev")} == {None}


@pytest.mark.parametrize("tables", [{}, CLASSIFICATION], ids=["perplexity", "classification"])
def test_a_likely_group_that_was_not_declared_is_said(home: Path, tables: dict[str, Any]) -> None:
    undeclared, declared = (
        regard.validate(recipe_of(home, group, **tables)).remarks for group in (None, "author")
    )
    assert ['data.group = "author"' in remark for remark in undeclared].count(True) == 1
    assert not [remark for remark in declared if "data.group" in remark]
