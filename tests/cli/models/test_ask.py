"""`regard ask`: answers from memory, abstains, looks up, and learns."""

from __future__ import annotations

import io
import json
import re
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
    """A trained recall run on the birthplaces of four families."""
    workspace = Workspace(tmp_path_factory.mktemp("workspace"))
    people = [(first, family) for first in FIRST for family in TOWNS]
    for split, rows_of in {"train": people, "dev": people[::3], "test": people[1::3]}.items():
        rows = [f"Where was {a} {b} born?\t{TOWNS[b]}" for a, b in rows_of]
        workspace.write(f"{split}.tsv", "\n".join(["question\tanswer", *rows]))
    lives = [f"{a} {b} was born in {TOWNS[b]} ." for a, b in people]
    workspace.write("lives.txt", "\n".join(lives))
    workspace.write("generated.txt", generated_text())
    workspace.recipe(
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
    workspace.run("train", "born.toml")
    return workspace


@pytest.fixture
def threshold() -> Iterator[Any]:
    """Replaces the confidence threshold: `threshold.sure` decides whether the model answers."""
    with mock.patch("regard.tasks.qa.abstention.Abstention.answers", autospec=True) as answers:
        answers.side_effect = lambda abstention, confidence: answers.sure
        yield answers


def ask(workspace: Workspace, *args: str, typed: str = "") -> CommandResult:
    with mock.patch("sys.stdin", io.StringIO(typed)):
        return workspace.invoke("ask", "runs/born", *args)


def answer(workspace: Workspace, *args: str) -> dict[str, Any]:
    result = ask(workspace, *args, "--json")
    assert result.exit_code == 0, result.stderr
    reply: dict[str, Any] = json.loads(result.stdout)
    return reply


def refused(workspace: Workspace, *args: str) -> str:
    result = ask(workspace, *args)
    assert result.exit_code == 2, result.stderr
    return result.error


def seen_and_unseen(workspace: Workspace) -> tuple[str, str]:
    """A question about a subject in the pretraining text, and one about a held-out subject."""
    items = workspace.folder / "runs" / "born" / "items" / "train.jsonl"
    rows = [json.loads(line) for line in items.read_text().splitlines()]
    by_seen = {row["seen"]: row["record"]["question"] for row in rows}
    return by_seen[True], by_seen[False]


def test_answer_with_confidence(workspace: Workspace, threshold: Any) -> None:
    threshold.sure = True
    seen, _ = seen_and_unseen(workspace)
    reply = answer(workspace, seen)
    assert reply["by"] == "model"
    assert reply["answer"] == reply["predicted"]
    assert (reply["seen"], reply["guess"]) == (True, False)
    assert 0 < reply["probability"] <= 1
    assert reply["agreement"] in (0, 0.25, 0.5, 0.75, 1)
    printed = ask(workspace, seen).stdout
    assert printed.splitlines()[0] == f"  {reply['answer']}"
    assert "answered from memory" in printed
    assert "% of samples agree" in printed
    if reply["reliability"] is not None:
        assert f"of the {reply['reliability']['n']} answers with" in printed


def test_abstains_below_the_threshold(workspace: Workspace, threshold: Any) -> None:
    threshold.sure = False
    reply = answer(workspace, BORN)
    assert (reply["answer"], reply["by"], reply["guess"]) == (None, "nobody", False)
    printed = ask(workspace, BORN).stdout
    assert printed.startswith("  I don't know.")
    assert "the model is not sure enough" in printed
    assert f"the model says {reply['predicted']!r}" in printed


def test_answer_about_an_unseen_subject_is_a_guess(workspace: Workspace, threshold: Any) -> None:
    threshold.sure = True
    _, unseen = seen_and_unseen(workspace)
    assert answer(workspace, unseen)["guess"] is True
    printed = ask(workspace, unseen).stdout
    assert "a guess: " in printed
    assert "on dev says nothing about a guess" in printed
    assert answer(workspace, unseen)["reliability"] is None
    result = ask(workspace, unseen, "--learn", "guessed.tsv", typed="Ulm\n")
    assert "stored in guessed.tsv" in result.stderr


def test_uncertain_answers_are_looked_up(workspace: Workspace, threshold: Any) -> None:
    workspace.write("people.csv", "name,born\nada berg,Ulm\nEva Kern,Lyon\nEva Kern,Bern\n")
    with closing(sqlite3.connect(workspace.folder / "people.db")) as database:
        database.execute("CREATE TABLE people (who TEXT, place TEXT)")
        database.execute("INSERT INTO people VALUES ('Ada Berg', 'Ulm')")
        database.commit()
    table = ("--table", "people.csv", "--key", "name", "--value", "born")
    threshold.sure = False
    for option in (table, ("--table", "people.db", "--key", "who", "--value", "place")):
        reply = answer(workspace, BORN, *option)
        assert (reply["answer"], reply["by"]) == ("Ulm", "table")
        assert f"looked up in {option[1]} under 'Ada Berg'" in reply["reason"]
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


def test_learn_stores_typed_answers(workspace: Workspace, threshold: Any) -> None:
    threshold.sure = False
    result = ask(workspace, BORN, "--learn", "kept.tsv", typed="  New   Ulm \n")
    assert result.exit_code == 0, result.stderr
    assert f"What is the answer to “{BORN}”?" in result.stderr
    assert result.stdout.startswith("  I don't know.")
    assert ask(workspace, "Where was Bo born?", "--learn", "kept.tsv", typed="\n").exit_code == 0
    assert "nothing was stored" in ask(workspace, BORN, "--learn", "kept.tsv", typed="").stderr
    reply = json.loads(ask(workspace, "Who?", "--learn", "kept.tsv", "--json", typed="Bo\n").stdout)
    assert reply["taught"] == "Bo"
    assert (workspace.folder / "kept.tsv").read_text().splitlines() == [
        "question\tanswer",
        f"{BORN}\tNew Ulm",
        "Who?\tBo",
    ]
    threshold.sure = True
    seen, _ = seen_and_unseen(workspace)
    assert ask(workspace, seen, "--learn", "none.tsv", typed="Ulm\n").exit_code == 0
    assert not (workspace.folder / "none.tsv").exists()


def test_missing_pretraining_text_is_reported(workspace: Workspace) -> None:
    lives = workspace.folder / "lives.txt"
    kept = lives.read_text()
    lives.unlink()
    try:
        assert answer(workspace, BORN)["seen"] is None
        assert re.search(r"pretraining text .* unknown", ask(workspace, BORN).stdout)
    finally:
        lives.write_text(kept)


def test_invalid_input_is_refused(workspace: Workspace, threshold: Any, tmp_path: Path) -> None:
    threshold.sure = False
    workspace.write("people.csv", "name,age,born\nAda Berg,7,Ulm\n")
    assert "the question is empty" in refused(workspace, "  ")
    assert "did you mean name" in refused(workspace, BORN, "--table", "people.csv", "--key", "nam")
    assert "there is no such file" in refused(workspace, BORN, "--table", "gone.csv")
    assert "--table, which is not given" in refused(workspace, BORN, "--key", "name")
    table = ("--table", "people.csv", "--key", "name", "--value", "born")
    assert 'Give it: --subject "Stanley Corrsin"' in refused(workspace, "Who was it?", *table)
    assert answer(workspace, "Who was it?", *table, "--subject", "Ada Berg")["answer"] == "Ulm"
    assert "pairs are kept in CSV or TSV" in refused(workspace, BORN, "--learn", "kept.json")


def test_run_of_another_task_is_refused(workspace: Workspace) -> None:
    workspace.recipe(train__max_steps=2, train__evaluate_every=0)
    workspace.run("train", "tiny.toml")
    result = workspace.invoke("ask", "runs/tiny", BORN)
    assert result.exit_code == 2
    assert result.error.startswith("ask: runs/tiny ")
    assert 'kind = "recall"' in result.error


def test_the_real_threshold_decides(workspace: Workspace) -> None:
    reply = answer(workspace, BORN)
    assert 0 < reply["threshold"] < NEVER
    assert (reply["answer"] is not None) == (reply["confidence"] >= reply["threshold"])
