"""`regard exercise`: sheets, marking of answers, and errors in one sentence."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from regard.cli import app
from regard.lessons.exercise import build_sheet, exercise_names


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def regard(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr(sys, "argv", ["regard", "exercise", *args])
    with pytest.raises(SystemExit) as exit_info:
        app.main()
    return int(exit_info.value.code or 0)  # type: ignore[arg-type]


def correct_query(seed: int) -> list[float]:
    keys = build_sheet("copying", seed).given["keys"]
    return (60 * keys[seed % 4]).tolist()


def test_list(monkeypatch, capsys):
    assert regard(monkeypatch, "--json") == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == exercise_names()
    assert regard(monkeypatch) == 0
    assert "copying" in capsys.readouterr().out


def test_filled_in_sheet_is_marked(monkeypatch, capsys):
    assert regard(monkeypatch, "copying", "--new", "7") == 0
    assert "copying-7.json" in capsys.readouterr().out
    sheet = json.loads(Path("copying-7.json").read_text(encoding="utf-8"))
    assert sheet["answer"] == {"q": None}
    sheet["answer"]["q"] = correct_query(7)
    Path("mine.json").write_text(json.dumps(sheet), encoding="utf-8")
    assert regard(monkeypatch, "copying", "--answer", "mine.json") == 0
    out = capsys.readouterr().out
    assert out.startswith("✓ ")
    assert "k₄  ████" in out


def test_wrong_answer_gives_exit_code_1(monkeypatch, capsys):
    Path("q.csv").write_text("0,0,0", encoding="utf-8")
    assert regard(monkeypatch, "copying", "--new", "7", "--answer", "q.csv") == 1
    out = capsys.readouterr().out
    assert out.startswith("✗ ")
    assert "25.0% of the weight" in out


def test_matrices_are_drawn_as_heat_maps(monkeypatch, capsys):
    Path("q.json").write_text(json.dumps([[0, 0, 0]] * 4), encoding="utf-8")
    assert regard(monkeypatch, "select-and-identity", "--new", "1", "--answer", "q.json") == 1
    assert "q₁  ░░ ░░ ░░ ░░" in capsys.readouterr().out


def test_folder_of_answers_gives_a_csv_of_marks(monkeypatch, capsys):
    Path("class").mkdir()
    for name, seed, q in (("ann", 1, correct_query(1)), ("bob", 2, [0, 0, 0])):
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
    ("args", "message"),
    [
        (("copyng", "--new", "1"), "unknown exercise 'copyng' — did you mean copying?"),
        (
            ("copying",),
            "--new or --answer is missing. Add --new SEED for a sheet, or --answer FILE",
        ),
        (("copying", "--new", "-1"), "a seed of -1. Give a whole number from 0 to 999999."),
        (("copying", "--answer", "no.json"), "no.json: is not there"),
        (("copying", "--answer", "bad.json"), "bad.json, line 2, column 4: 'x' is not a number"),
    ],
)
def test_errors_are_one_sentence(monkeypatch, capsys, args, message):
    Path("bad.json").write_text('{"seed": 1, "q": [1,\n 2,"x"]}', encoding="utf-8")
    assert regard(monkeypatch, *args) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
