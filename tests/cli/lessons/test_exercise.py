"""`regard exercise`: sheets without answers, marks for answers, one sentence where it cannot."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from regard.cli import app, console
from regard.lessons.exercise import build_sheet, exercise_names


@pytest.fixture(autouse=True)
def new_console(tmp_path, monkeypatch):
    """Each command is a process of its own for a person; the console is made once a process."""
    monkeypatch.chdir(tmp_path)
    console.console.cache_clear()
    yield
    console.console.cache_clear()


def regard(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["regard", "exercise", *words])
    with pytest.raises(SystemExit) as left:
        app.main()
    return int(left.value.code or 0)  # type: ignore[arg-type]


def right_query(seed: int) -> list[float]:
    keys = build_sheet("copying", seed).given["keys"]
    return (60 * keys[seed % 4]).tolist()


def test_it_lists(monkeypatch, capsys):
    assert regard(monkeypatch, "--json") == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == exercise_names()
    assert regard(monkeypatch) == 0
    assert "copying" in capsys.readouterr().out


def test_a_sheet_is_filled_in_and_marked(monkeypatch, capsys):
    assert regard(monkeypatch, "copying", "--new", "7") == 0
    assert "copying-7.json" in capsys.readouterr().out
    made = json.loads(Path("copying-7.json").read_text(encoding="utf-8"))
    assert made["answer"] == {"q": None}
    made["answer"]["q"] = right_query(7)
    Path("mine.json").write_text(json.dumps(made), encoding="utf-8")
    assert regard(monkeypatch, "copying", "--answer", "mine.json") == 0
    out = capsys.readouterr().out
    assert out.startswith("✓ ")
    assert "k₄  ████" in out


def test_a_wrong_answer_is_exit_code_1(monkeypatch, capsys):
    Path("q.csv").write_text("0,0,0", encoding="utf-8")
    assert regard(monkeypatch, "copying", "--new", "7", "--answer", "q.csv") == 1
    out = capsys.readouterr().out
    assert out.startswith("✗ ")
    assert "25.0% of the weight" in out


def test_matrices_are_drawn_as_maps(monkeypatch, capsys):
    Path("q.json").write_text(json.dumps([[0, 0, 0]] * 4), encoding="utf-8")
    assert regard(monkeypatch, "select-and-identity", "--new", "1", "--answer", "q.json") == 1
    assert "q₁  ░░ ░░ ░░ ░░" in capsys.readouterr().out


def test_a_folder_gives_a_csv_of_marks(monkeypatch, capsys):
    Path("class").mkdir()
    for name, seed, q in (("ann", 1, right_query(1)), ("bob", 2, [0, 0, 0])):
        text = json.dumps({"seed": seed, "q": q})
        Path(f"class/{name}.json").write_text(text, encoding="utf-8")
    assert regard(monkeypatch, "copying", "--answer", "class") == 1
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["file"], row["passed"]) for row in rows] == [
        ("ann.json", "yes"),
        ("bob.json", "no"),
    ]
    assert regard(monkeypatch, "copying", "--answer", "class", "--out", "marks.csv") == 1
    assert "1 of 2 answers" in capsys.readouterr().out
    assert Path("marks.csv").read_text(encoding="utf-8").startswith("file,exercise,seed,passed")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("copyng", "--new", "1"), "unknown exercise 'copyng' — did you mean copying?"),
        (("copying",), "say what to do. Add --new SEED for a sheet, or --answer FILE"),
        (("copying", "--new", "-1"), "a seed of -1. Give a whole number from 0 to 999999."),
        (("copying", "--answer", "no.json"), "no.json: is not there"),
        (("copying", "--answer", "bad.json"), "bad.json, line 2, column 4: 'x' is not a number"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(monkeypatch, capsys, words, said):
    Path("bad.json").write_text('{"seed": 1, "q": [1,\n 2,"x"]}', encoding="utf-8")
    assert regard(monkeypatch, *words) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
