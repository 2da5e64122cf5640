"""Whatever a table holds: a recipe that is valid, or one sentence."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.runs.proposals.overrides import Overrides
from regard.runs.proposals.proposal import Proposal, propose
from regard.runs.proposals.recognise import recognise
from regard.runs.recipe import Recipe

ROWS = 60
WORDS = ["the", "old", "man", "saw", "Größe", "7", "sea", "never", "a", "ship", "?", "in", "Rome"]
SENTENCE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
LONG = st.lists(st.sampled_from(WORDS), min_size=8, max_size=12).map(" ".join)
CELLS = {
    "sentences": SENTENCE,
    "labels": st.sampled_from(["yes", "no", "perhaps"]),
    "numbers": st.floats(-5, 5).map(lambda value: round(value, 2)),
    "whole": st.integers(0, 6),
    "constant": st.just("web"),
    "empty": st.just(""),
    "dates": st.integers(1, 28).map(lambda day: f"2024-01-{day:02}"),
    "codes": st.integers(0, 10**6).map(lambda code: f"id-{code:07}"),
    "some": st.one_of(st.just(""), SENTENCE),
    "mixed": st.one_of(st.just(""), st.integers(0, 3).map(str), SENTENCE),
}
LISTS = {
    "lists": st.lists(SENTENCE, max_size=3),
    "tags": st.lists(st.sampled_from("ABO"), max_size=4),
    "objects": st.fixed_dictionaries({"a": SENTENCE, "b": st.integers(0, 2)}),
    "nothing": st.none(),
}
NAMES = ["text", "label", "score", "question", "context", "answers", "id", "c 1", "Übung", "split"]


@st.composite
def tables(draw: st.DrawFn, cells: dict[str, Any]) -> dict[str, list[Any]]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    return {
        name: draw(st.lists(cells[draw(st.sampled_from([*cells]))], min_size=ROWS, max_size=ROWS))
        for name in names
    }


WISHES = st.just(Overrides()) | st.builds(
    Overrides,
    task=st.sampled_from([None, None, "classification", "pairs", "extractive", "tagging"]),
    texts=st.sampled_from([(), (), ("text",), ("text", "context"), ("",)]),
    label=st.sampled_from([None, None, "label", "answers", ""]),
)


def propose_all(path: Path, overrides: Overrides) -> list[Proposal] | UserError:
    try:
        found = recognise([str(path)], overrides)
        return [
            propose(found, reading, overrides, name="a", recipe_file=Path("a.toml"))
            for reading in found.readings
        ]
    except UserError as problem:
        return problem


def check(path: Path, overrides: Overrides) -> None:
    proposals = propose_all(path, overrides)
    if isinstance(proposals, UserError):
        assert "\n" not in str(proposals)
        return
    for proposal in proposals:
        recipe = Recipe.from_table(tomllib.loads(proposal.recipe))
        assert recipe.data.corpus == str(path)
        assert tomllib.loads(proposal.study)["base"] == "a.toml"
        assert all(line and "\n" not in line for line in proposal.said)


@settings(max_examples=15, deadline=None)
@given(tables(CELLS), WISHES, st.sampled_from(",;\t|"), st.booleans())
def test_any_csv(
    tmp_path_factory: pytest.TempPathFactory,
    table: dict[str, list[Any]],
    overrides: Overrides,
    separator: str,
    header: bool,
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerows([[*table]] if header else [])
        writer.writerows(zip(*table.values(), strict=True))
    check(path, overrides)


@settings(max_examples=15, deadline=None)
@given(tables(CELLS | LISTS), WISHES)
def test_any_json_lines(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, list[Any]], overrides: Overrides
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    rows = (dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    check(path, overrides)
