"""Lessons and exercises, as learners and teachers type them in a folder of their own."""

import json

import pytest
from tests.journeys.workspace import Workspace

from regard.lessons.exercise import build_sheet


@pytest.fixture(autouse=True)
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a page, and these tests read words."""
    monkeypatch.setattr("regard.lessons.page.drawings", lambda draw, ran: [])


def right_query(seed: int) -> list[float]:
    keys = build_sheet("copying", seed).given["keys"]
    return (60 * keys[seed % 4]).tolist()


def test_a_learner_lists_a_topic_and_turns_a_parameter(workspace: Workspace) -> None:
    listed = workspace.run("lesson", "--topic", "masks")
    assert "three-masks" in listed
    assert "copying" not in listed
    of_text = json.loads(workspace.run("lesson", "--topic", "text", "--json"))
    assert {one["topic"] for one in of_text} == {"text"}
    by_greek, by_name = (
        json.loads(workspace.run("lesson", "average-of-two", "--set", f"{name}=3", "--json"))
        for name in ("β", "beta")
    )
    assert by_greek["parameters"]["beta"] == 3
    assert by_greek["checks"] == by_name["checks"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lesson", "--set", "beta=3"), "lesson: --set and --out go with a lesson."),
        (("lesson", "--topic", "maks"), "unknown topic 'maks' — did you mean masks?"),
        (("lesson", "average-of-tow"), "did you mean average-of-two?"),
        (("lesson", "average-of-two", "--set", "β=90"), "give a number from 1 to 50"),
        (("exercise", "--new", "3"), "exercise: say which exercise."),
        (("exercise", "copying", "--new", "3", "--out", "."), "exercise: .: is a folder."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    workspace: Workspace, words: tuple[str, ...], said: str
) -> None:
    refused = workspace.invoke(*words)
    assert refused.exit_code == 2
    assert said in refused.error
    assert "Traceback" not in refused.stderr


def test_a_sheet_that_was_begun_is_not_written_over(workspace: Workspace) -> None:
    workspace.run("exercise", "copying", "--new", "3")
    workspace.run("exercise", "copying", "--new", "3")  # untouched: the same again
    file = workspace.folder / "copying-3.json"
    begun = file.read_text().replace('"q": null', '"q": [1, 2, 3]')
    file.write_text(begun)
    refused = workspace.invoke("exercise", "copying", "--new", "3")
    assert refused.exit_code == 2
    assert "copying-3.json: is already there" in refused.error
    assert file.read_text() == begun


def test_a_teacher_marks_a_folder_twice(workspace: Workspace) -> None:
    workspace.write("class/ann.json", json.dumps({"seed": 1, "q": right_query(1)}))
    workspace.write("class/bob.csv", "0,0,0\n")
    workspace.write("class/eve.json", '{"seed": 1, "q": [1, 2,\n]}')
    mark = ("exercise", "copying", "--answer", "class", "--new", "1", "--out", "class/marks.csv")
    first, second = workspace.invoke(*mark), workspace.invoke(*mark)
    assert (first.exit_code, second.exit_code) == (1, 1)
    assert first.stdout == second.stdout
    assert "1 of 3 answers are within the goal" in first.stdout
    marks = (workspace.folder / "class/marks.csv").read_text()
    assert "class/eve.json, line 2, column 1" in marks
    assert "marks.csv" not in marks
