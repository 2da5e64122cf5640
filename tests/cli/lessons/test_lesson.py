"""`regard lesson`: list, runs, pages; errors are one sentence and exit code 2."""

import json
import sys
from pathlib import Path

import pytest
from tests.wording import says

from regard import lessons
from regard.cli import app
from regard.lessons import LESSONS
from regard.lessons.lesson import below
from regard.lessons.topics.by_hand import one_key


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def regard(monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    monkeypatch.setattr(sys, "argv", ["regard", "lesson", *args])
    with pytest.raises(SystemExit) as exit_info:
        app.main()
    return int(exit_info.value.code or 0)  # type: ignore[arg-type]


def test_list_by_topic(monkeypatch, capsys):
    assert regard(monkeypatch) == 0
    out = capsys.readouterr().out
    assert out.index("attention by hand") < out.index("copying") < out.index("masks\n")
    assert regard(monkeypatch, "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert sorted(one["name"] for one in listed) == LESSONS.names()
    (beta,) = (one["parameters"][0] for one in listed if one["name"] == "average-of-two")
    assert beta == {"name": "beta", "type": "float", "default": 20.0, "low": 1, "high": 50}


def test_lesson_is_run_and_its_page_written(monkeypatch, capsys):
    assert regard(monkeypatch, "average-of-two", "--set", "β=10", "--set", "keys=4") == 0
    out = capsys.readouterr().out
    assert says(out, "query", "average of two values?")
    assert "beta = 10.0, keys = 4" in out
    assert out.count("✓") == 7
    assert "✗" not in out
    assert Path("lessons/average-of-two.html").read_text(encoding="utf-8").startswith("<!doctype")


def test_json_writes_a_page_only_with_out(monkeypatch, capsys):
    assert regard(monkeypatch, "copying", "--json") == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True
    assert not Path("lessons").exists()
    assert regard(monkeypatch, "copying", "--json", "--out", "new/page.html") == 0
    assert Path("new/page.html").is_file()


def test_all_writes_a_booklet(monkeypatch, capsys):
    few = {"masks": [lessons.lesson_info("three-masks"), lessons.lesson_info("zero-masking")]}
    monkeypatch.setattr(lessons, "lessons_by_topic", lambda: few)
    assert regard(monkeypatch, "all", "--out", "book") == 0
    out = capsys.readouterr().out
    assert "✓ three-masks   7 of 7 checks" in out
    assert "2 lessons in " in out
    assert Path("book/booklet.html").is_file()
    assert Path("book/course.html").is_file()
    assert Path("book/notebooks/masks.ipynb").is_file()


def test_failing_check_gives_exit_code_1(monkeypatch, capsys):
    monkeypatch.setattr(one_key, "above", lambda name, *_: below(name, 2, 1))
    assert regard(monkeypatch, "copying") == 1
    assert "✗" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("copyng",), "unknown lesson 'copyng' — did you mean copying?"),
        (
            ("copying", "--set", "beta=500"),
            "beta = 500 is not allowed: give a number from 1 to 200",
        ),
        (("copying", "--set", "bet=5"), "unknown parameter bet — did you mean beta?"),
        (("copying", "--set", "beta"), "--set beta: write it as name=value"),
        (("copying", "--topic", "masks"), "--topic only applies to `all`"),
        (("all", "--topic", "mask"), "unknown topic 'mask' — did you mean masks?"),
        (("all", "--set", "beta=5"), "--set needs a single lesson"),
        (("copying", "--out", "."), "is a folder. Name a file."),
    ],
)
def test_errors_are_one_sentence(monkeypatch, capsys, args, message):
    assert regard(monkeypatch, *args) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
