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
from tests.journeys.desk import Desk, Outcome, generated_text

from regard.tasks.qa.abstention import NEVER

FIRST = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hal", "Ida", "Jon")
TOWNS = {"Berg": "Oslo", "Rossi": "Rome", "Kern": "New Bern", "Dunn": "Cork"}
BORN = "Where was Ada Berg born?"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with a run that knows where people of four families were born, trained once."""
    made = Desk(tmp_path_factory.mktemp("desk"))
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
    made.done("train", "born.toml")
    return made


@pytest.fixture
def threshold() -> Iterator[Any]:
    """What the model has to be sure of: `threshold.answers` decides, whatever was trained."""
    with mock.patch("regard.tasks.qa.abstention.Abstention.answers", autospec=True) as answers:
        answers.side_effect = lambda abstention, confidence: answers.sure
        yield answers


def asked(desk: Desk, *words: str, typed: str = "") -> Outcome:
    with mock.patch("sys.stdin", io.StringIO(typed)):
        return desk.regard("ask", "runs/born", *words)


def answer(desk: Desk, *words: str) -> dict[str, Any]:
    outcome = asked(desk, *words, "--json")
    assert outcome.code == 0, outcome.err
    told: dict[str, Any] = json.loads(outcome.out)
    return told


def refused(desk: Desk, *words: str) -> str:
    outcome = asked(desk, *words)
    assert outcome.code == 2, outcome.err
    return outcome.complaint


def seen_and_unseen(desk: Desk) -> tuple[str, str]:
    """Of Ada Berg and the like: one whom the pretraining text names, and one whom it held back."""
    items = desk.folder / "runs" / "born" / "items" / "train.jsonl"
    rows = [json.loads(line) for line in items.read_text().splitlines()]
    by_seen = {row["seen"]: row["record"]["question"] for row in rows}
    return by_seen[True], by_seen[False]


def test_it_answers_and_says_how_sure_it_is(desk: Desk, threshold: Any) -> None:
    threshold.sure = True
    seen, _ = seen_and_unseen(desk)
    told = answer(desk, seen)
    assert told["by"] == "model"
    assert told["answer"] == told["best"]
    assert (told["seen"], told["guess"]) == (True, False)
    assert 0 < told["probability"] <= 1
    assert told["agreement"] in (0, 0.25, 0.5, 0.75, 1)
    printed = asked(desk, seen).out
    assert printed.splitlines()[0] == f"  {told['answer']}"
    assert "answered from memory" in printed
    assert "% of draws agree" in printed
    if told["as_sure"] is not None:
        assert f"of the {told['as_sure']['n']} answers as sure" in printed


def test_it_says_that_it_does_not_know(desk: Desk, threshold: Any) -> None:
    threshold.sure = False
    told = answer(desk, BORN)
    assert (told["answer"], told["by"], told["guess"]) == (None, "nobody", False)
    printed = asked(desk, BORN).out
    assert printed.startswith("  I don't know.")
    assert "the model is not sure enough" in printed
    assert f"the model says {told['best']!r}" in printed


def test_an_answer_about_somebody_never_read_of_is_a_guess(desk: Desk, threshold: Any) -> None:
    threshold.sure = True
    _, unseen = seen_and_unseen(desk)
    assert answer(desk, unseen)["guess"] is True
    printed = asked(desk, unseen).out
    assert "a guess: its pretraining text does not name" in printed
    assert "on dev says nothing of a guess" in printed
    assert answer(desk, unseen)["as_sure"] is None
    outcome = asked(desk, unseen, "--learn", "guessed.tsv", typed="Ulm\n")
    assert "kept in guessed.tsv" in outcome.err


def test_it_looks_up_what_it_is_not_sure_of(desk: Desk, threshold: Any) -> None:
    desk.write("people.csv", "name,born\nada berg,Ulm\nEva Kern,Lyon\nEva Kern,Bern\n")
    with closing(sqlite3.connect(desk.folder / "people.db")) as database:
        database.execute("CREATE TABLE people (who TEXT, place TEXT)")
        database.execute("INSERT INTO people VALUES ('Ada Berg', 'Ulm')")
        database.commit()
    table = ("--table", "people.csv", "--key", "name", "--value", "born")
    threshold.sure = False
    for option in (table, ("--table", "people.db", "--key", "who", "--value", "place")):
        told = answer(desk, BORN, *option)
        assert (told["answer"], told["by"]) == ("Ulm", "table")
        assert f"looked up in {option[1]} under 'Ada Berg'" in told["reason"]
    nobody = answer(desk, "Where was Cy Young born?", *table)
    assert (nobody["answer"], nobody["by"]) == (None, "nobody")
    assert "people.csv has no row for 'Cy Young'" in nobody["reason"]
    several = answer(desk, "Where was Eva Kern born?", *table)
    assert several["answer"] is None
    assert "several values for 'Eva Kern': Lyon, Bern" in several["reason"]
    threshold.sure = True
    seen, unseen = seen_and_unseen(desk)
    assert answer(desk, seen, *table)["by"] == "model"
    name = unseen.removeprefix("Where was ").removesuffix(" born?")
    desk.write("own.csv", f"name,born\n{name},Ulm\n")
    looked_up = answer(desk, unseen, "--table", "own.csv")
    assert (looked_up["answer"], looked_up["by"], looked_up["guess"]) == ("Ulm", "table", False)


def test_it_learns_what_it_does_not_know(desk: Desk, threshold: Any) -> None:
    threshold.sure = False
    outcome = asked(desk, BORN, "--learn", "kept.tsv", typed="  New   Ulm \n")
    assert outcome.code == 0, outcome.err
    assert f"What is the answer to “{BORN}”?" in outcome.err
    assert outcome.out.startswith("  I don't know.")
    assert asked(desk, "Where was Bo born?", "--learn", "kept.tsv", typed="\n").code == 0
    assert "nothing was kept" in asked(desk, BORN, "--learn", "kept.tsv", typed="").err
    told = json.loads(asked(desk, "Who?", "--learn", "kept.tsv", "--json", typed="Bo\n").out)
    assert told["taught"] == "Bo"
    assert (desk.folder / "kept.tsv").read_text().splitlines() == [
        "question\tanswer",
        f"{BORN}\tNew Ulm",
        "Who?\tBo",
    ]
    threshold.sure = True
    seen, _ = seen_and_unseen(desk)
    assert asked(desk, seen, "--learn", "none.tsv", typed="Ulm\n").code == 0
    assert not (desk.folder / "none.tsv").exists()


def test_a_pretraining_text_that_is_gone_is_said(desk: Desk) -> None:
    lives = desk.folder / "lives.txt"
    kept = lives.read_text()
    lives.unlink()
    try:
        assert answer(desk, BORN)["seen"] is None
        assert (
            "whether its pretraining text names the subject is not known" in asked(desk, BORN).out
        )
    finally:
        lives.write_text(kept)


def test_what_cannot_be_asked_is_refused(desk: Desk, threshold: Any, tmp_path: Path) -> None:
    threshold.sure = False
    desk.write("people.csv", "name,age,born\nAda Berg,7,Ulm\n")
    assert "the question is empty" in refused(desk, "  ")
    assert "did you mean name" in refused(desk, BORN, "--table", "people.csv", "--key", "nam")
    assert "there is no such file" in refused(desk, BORN, "--table", "gone.csv")
    assert "--table, which is not given" in refused(desk, BORN, "--key", "name")
    table = ("--table", "people.csv", "--key", "name", "--value", "born")
    assert 'Say it: --subject "Stanley Corrsin"' in refused(desk, "Who was it?", *table)
    assert answer(desk, "Who was it?", *table, "--subject", "Ada Berg")["answer"] == "Ulm"
    assert "pairs are kept in CSV or TSV" in refused(desk, BORN, "--learn", "kept.json")


def test_a_run_of_another_sort_is_refused(desk: Desk) -> None:
    desk.recipe(train__max_steps=2, train__evaluate_every=0)
    desk.done("train", "tiny.toml")
    outcome = desk.regard("ask", "runs/tiny", BORN)
    assert outcome.code == 2
    assert 'Give a run whose recipe has [task] kind = "recall"' in outcome.complaint


def test_the_real_threshold_decides(desk: Desk) -> None:
    told = answer(desk, BORN)
    assert 0 < told["threshold"] < NEVER
    assert (told["answer"] is not None) == (told["confidence"] >= told["threshold"])
