"""Lessons and exercises on the command line, for learners and teachers."""

import json

import pytest
from tests.journeys.workspace import Workspace

from regard.lessons.exercise import build_sheet


@pytest.fixture(autouse=True)
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts take most of a page's time, and these tests read its text."""
    monkeypatch.setattr("regard.lessons.page.draw_inline_charts", lambda *_: [])


def correct_query(seed: int) -> list[float]:
    keys = build_sheet("copying", seed).given["keys"]
    return (60 * keys[seed % 4]).tolist()


def test_lessons_are_listed_by_topic_and_take_parameters(workspace: Workspace) -> None:
    listed = workspace.run("lesson", "--topic", "masks")
    assert "three-masks" in listed
    assert "copying" not in listed
    lessons = json.loads(workspace.run("lesson", "--topic", "text", "--json"))
    assert {lesson["topic"] for lesson in lessons} == {"text"}
    greek, latin = (
        json.loads(workspace.run("lesson", "average-of-two", "--set", f"{name}=3", "--json"))
        for name in ("β", "beta")
    )
    assert greek["parameters"]["beta"] == 3
    assert greek["checks"] == latin["checks"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("lesson", "--set", "beta=3"), "lesson: --set and --out need a lesson."),
        (("lesson", "--topic", "maks"), "unknown topic 'maks' — did you mean masks?"),
        (("lesson", "average-of-tow"), "did you mean average-of-two?"),
        (("lesson", "average-of-two", "--set", "β=90"), "give a number from 1 to 50"),
        (("exercise", "--new", "3"), "exercise: name the exercise."),
        (("exercise", "copying", "--new", "3", "--out", "."), "exercise: .: is a folder."),
    ],
)
def test_invalid_arguments_are_refused_in_one_sentence(
    workspace: Workspace, arguments: tuple[str, ...], expected: str
) -> None:
    refused = workspace.invoke(*arguments)
    assert refused.exit_code == 2
    assert expected in refused.error
    assert "Traceback" not in refused.stderr


def test_edited_exercise_sheet_is_not_overwritten(workspace: Workspace) -> None:
    workspace.run("exercise", "copying", "--new", "3")
    workspace.run("exercise", "copying", "--new", "3")  # unedited: written again
    file = workspace.folder / "copying-3.json"
    edited = file.read_text().replace('"q": null', '"q": [1, 2, 3]')
    file.write_text(edited)
    refused = workspace.invoke("exercise", "copying", "--new", "3")
    assert refused.exit_code == 2
    assert "copying-3.json: exists already" in refused.error
    assert file.read_text() == edited


def test_marking_a_folder_twice_gives_the_same_marks(workspace: Workspace) -> None:
    workspace.write("class/ann.json", json.dumps({"seed": 1, "q": correct_query(1)}))
    workspace.write("class/bob.csv", "0,0,0\n")
    workspace.write("class/eve.json", '{"seed": 1, "q": [1, 2,\n]}')
    mark = ("exercise", "copying", "--answer", "class", "--new", "1", "--out", "class/marks.csv")
    first, second = workspace.invoke(*mark), workspace.invoke(*mark)
    assert (first.exit_code, second.exit_code) == (1, 1)
    assert first.stdout == second.stdout
    assert "1 of 3 answers" in first.stdout
    marks = (workspace.folder / "class/marks.csv").read_text()
    assert "class/eve.json, line 2, column 1" in marks
    assert "marks.csv" not in marks
