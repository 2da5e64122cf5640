"""`regard ask`: answers, abstains, looks up, learns; and says which it did."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.journeys.workspace import CommandResult, Workspace, generated_text

from regard.tasks.qa.abstention import NEVER

FIRST = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hal", "Ida", "Jon")
TOWNS = {"Berg": "Oslo", "Rossi": "Rome", "Kern": "New Bern", "Dunn": "Cork"}
BORN = "Where was Ada Berg born?"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with a run that knows where people of four families were born, trained once."""
    made = Workspace(tmp_path_factory.mktemp("workspace"))
    people = [(first, family) for first in FIRST for family in TOWNS]
    for part, some in {"train": people, "dev": people[::3], "test": people[1::3]}.items():
        rows = [f"Where was {a} {b} born?\t{TOWNS[b]}" for a, b in some]
        made.write(f"{part}.tsv", "\n".join(["question\tanswer", *rows]))
    told = [f"{a} {b} was born in {TOWNS[b]} ." for a, b in people]
    made.write("lives.txt", "\n".join(told))
    made.write("generated.txt", generated_text())
    made.recipe(
        "born.toml",
        name="born",
        data={"corpus": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"},
        tokenizer={"kind": "word", "minimum_count": 1},
        model__width=32,
        task={
            "kind": "recall",
            "subject": "Where was (.+) born",
            "seen_in": {"corpus": "lives.txt", "dev": 0.1, "test": 0.1},
            "samples": 4,
        },
        train__max_steps=60,
        train__evaluate_every=0,
        train__batch_tokens=300,
    )
    made.run("train", "born.toml")
    return made


@pytest.fixture
def threshold() -> Iterator[Any]:
    """What the model has to be sure of: `threshold.answers` decides, whatever was trained."""
    with mock.patch("regard.tasks.qa.abstention.Abstention.answers", autospec=True) as answers:
        answers.side_effect = lambda abstention, confidence: answers.sure
        yield answers


def asked(workspace: Workspace, *words: str, typed: str = "") -> CommandResult:
    with mock.patch("sys.stdin", io.StringIO(typed)):
        return workspace.invoke("ask", "runs/born", *words)


def answer(workspace: Workspace, *words: str) -> dict[str, Any]:
    result = asked(workspace, *words, "--json")
    assert result.exit_code == 0, result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def refused(workspace: Workspace, *words: str) -> str:
    result = asked(workspace, *words)
    assert result.exit_code == 2, result.stderr
    return result.error


def seen_and_unseen(workspace: Workspace) -> tuple[str, str]:
    """Of Ada Berg and the like: one whom the pretraining text names, and one whom it held back."""
    items = workspace.folder / "runs" / "born" / "items" / "train.jsonl"
    rows = [json.loads(line) for line in items.read_text().splitlines()]
    by_seen = {row["seen"]: row["record"]["question"] for row in rows}
    return by_seen[True], by_seen[False]


def test_it_answers_and_says_how_sure_it_is(workspace: Workspace, threshold: Any) -> None:
    threshold.sure = True
    seen, _ = seen_and_unseen(workspace)
    told = answer(workspace, seen)
    assert told["by"] == "model"
    assert told["answer"] == told["predicted"]
    assert (told["seen"], told["guess"]) == (True, False)
    assert 0 < told["probability"] <= 1
    assert told["agreement"] in (0, 0.25, 0.5, 0.75, 1)
    printed = asked(workspace, seen).stdout
    assert printed.splitlines()[0] == f"  {told['answer']}"
    assert "answered from memory" in printed
    assert "% of samples agree" in printed
    if told["reliability"] is not None:
        assert f"of the {told['reliability']['n']} answers with" in printed


def test_it_says_that_it_does_not_know(workspace: Workspace, threshold: Any) -> None:
    threshold.sure = False
    told = answer(workspace, BORN)
    assert (told["answer"], told["by"], told["guess"]) == (None, "nobody", False)
    printed = asked(workspace, BORN).stdout
    assert printed.startswith("  I don't know.")
    assert "the model is not sure enough" in printed
    assert f"the model says {told['predicted']!r}" in printed


def test_an_answer_about_somebody_never_read_of_is_a_guess(
    workspace: Workspace, threshold: Any
) -> None:
    threshold.sure = True
    _, unseen = seen_and_unseen(workspace)
    assert answer(workspace, unseen)["guess"] is True
    printed = asked(workspace, unseen).stdout
    assert "a guess: its pretraining text does not name" in printed
    assert "on dev says nothing about a guess" in printed
    assert answer(workspace, unseen)["reliability"] is None
    result = asked(workspace, unseen, "--learn", "guessed.tsv", typed="Ulm\n")
    assert "stored in guessed.tsv" in result.stderr


def test_it_looks_up_what_it_is_not_sure_of(workspace: Workspace, threshold: Any) -> None:
    workspace.write("people.csv", "name,born\nada berg,Ulm\nEva Kern,Lyon\nEva Kern,Bern\n")
    with closing(sqlite3.connect(workspace.folder / "people.db")) as database:
        database.execute("CREATE TABLE people (who TEXT, place TEXT)")
        database.execute("INSERT INTO people VALUES ('Ada Berg', 'Ulm')")
        database.commit()
    table = ("--table", "people.csv", "--key", "name", "--value", "born")
    threshold.sure = False
    for option in (table, ("--table", "people.db", "--key", "who", "--value", "place")):
        told = answer(workspace, BORN, *option)
        assert (told["answer"], told["by"]) == ("Ulm", "table")
        assert f"looked up in {option[1]} under 'Ada Berg'" in told["reason"]
    nobody = answer(workspace, "Where was Cy Young born?", *table)
    assert (nobody["answer"], nobody["by"]) == (None, "nobody")
    assert "people.csv has no row for 'Cy Young'" in nobody["reason"]
    several = answer(workspace, "Where was Eva Kern born?", *table)
    assert several["answer"] is None
    assert "several values for 'Eva Kern': Lyon, Bern" in several["reason"]
    threshold.sure = True
    seen, unseen = seen_and_unseen(workspace)
    assert answer(workspace, seen, *table)["by"] == "model"
    name = unseen.removeprefix("Where was ").removesuffix(" born?")
    workspace.write("own.csv", f"name,born\n{name},Ulm\n")
    looked_up = answer(workspace, unseen, "--table", "own.csv")
    assert (looked_up["answer"], looked_up["by"], looked_up["guess"]) == ("Ulm", "table", False)


def test_it_learns_what_it_does_not_know(workspace: Workspace, threshold: Any) -> None:
    threshold.sure = False
    result = asked(workspace, BORN, "--learn", "kept.tsv", typed="  New   Ulm \n")
    assert result.exit_code == 0, result.stderr
    assert f"What is the answer to “{BORN}”?" in result.stderr
    assert result.stdout.startswith("  I don't know.")
    assert asked(workspace, "Where was Bo born?", "--learn", "kept.tsv", typed="\n").exit_code == 0
    assert "nothing was stored" in asked(workspace, BORN, "--learn", "kept.tsv", typed="").stderr
    told = json.loads(
        asked(workspace, "Who?", "--learn", "kept.tsv", "--json", typed="Bo\n").stdout
    )
    assert told["taught"] == "Bo"
    assert (workspace.folder / "kept.tsv").read_text().splitlines() == [
        "question\tanswer",
        f"{BORN}\tNew Ulm",
        "Who?\tBo",
    ]
    threshold.sure = True
    seen, _ = seen_and_unseen(workspace)
    assert asked(workspace, seen, "--learn", "none.tsv", typed="Ulm\n").exit_code == 0
    assert not (workspace.folder / "none.tsv").exists()


def test_a_pretraining_text_that_is_gone_is_said(workspace: Workspace) -> None:
    lives = workspace.folder / "lives.txt"
    kept = lives.read_text()
    lives.unlink()
    try:
        assert answer(workspace, BORN)["seen"] is None
        assert (
            "whether its pretraining text names the subject is unknown"
            in asked(workspace, BORN).stdout
        )
    finally:
        lives.write_text(kept)


def test_what_cannot_be_asked_is_refused(
    workspace: Workspace, threshold: Any, tmp_path: Path
) -> None:
    threshold.sure = False
    workspace.write("people.csv", "name,age,born\nAda Berg,7,Ulm\n")
    assert "the question is empty" in refused(workspace, "  ")
    assert "did you mean name" in refused(workspace, BORN, "--table", "people.csv", "--key", "nam")
    assert "there is no such file" in refused(workspace, BORN, "--table", "gone.csv")
    assert "--table, which is not given" in refused(workspace, BORN, "--key", "name")
    table = ("--table", "people.csv", "--key", "name", "--value", "born")
    assert 'Say it: --subject "Stanley Corrsin"' in refused(workspace, "Who was it?", *table)
    assert answer(workspace, "Who was it?", *table, "--subject", "Ada Berg")["answer"] == "Ulm"
    assert "pairs are kept in CSV or TSV" in refused(workspace, BORN, "--learn", "kept.json")


def test_a_run_of_another_sort_is_refused(workspace: Workspace) -> None:
    workspace.recipe(train__max_steps=2, train__evaluate_every=0)
    workspace.run("train", "tiny.toml")
    result = workspace.invoke("ask", "runs/tiny", BORN)
    assert result.exit_code == 2
    assert 'Give a run whose recipe has [task] kind = "recall"' in result.error


def test_the_real_threshold_decides(workspace: Workspace) -> None:
    told = answer(workspace, BORN)
    assert 0 < told["threshold"] < NEVER
    assert (told["answer"] is not None) == (told["confidence"] >= told["threshold"])
