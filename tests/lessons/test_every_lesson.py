"""Every lesson: its checks hold, its chart can be drawn, and where it points something stands."""

import ast
import inspect
import textwrap
import tomllib
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.lessons import LESSONS, Lesson, LessonTable, about, lesson, lessons_by_topic, run_lesson
from regard.lessons.exercise import exercise_names
from regard.lessons.topics import TOPICS
from regard.reports.charts.theme import DARK, LIGHT

ROOT = Path(__file__).parents[2]
QUICK = [name for name in LESSONS.names() if about(name).takes == "seconds"]


@pytest.mark.parametrize("name", QUICK)
def test_its_claim_holds(name: str):
    ran = run_lesson(name)
    assert ran.result.checks
    assert [check.as_dict() for check in ran.result.checks if not check.passed] == []
    assert ran.result.table.rows
    assert ran.result.caption.endswith(".")
    for theme, width in ((LIGHT, 860), (DARK, 360)):
        drawn = ran.result.chart(theme=theme, width=width).to_dict()
        assert drawn["width"] == width
    assert ran.result.see == pointed_to(name)


def pointed_to(name: str) -> list[str]:
    """What the lesson's function says under `see=`, without running it: some train."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(about(name).function))).body
    (found,) = (
        word.value for word in ast.walk(tree) if isinstance(word, ast.keyword) and word.arg == "see"
    )
    return ast.literal_eval(found)


@pytest.mark.parametrize("name", LESSONS.names())
def test_where_it_points_something_stands(name: str):
    see = pointed_to(name)
    assert any(place.endswith(".py") for place in see), "points to no code"
    assert any(place.startswith("recipes/") for place in see), "points to no study"
    for place in see:
        home = ROOT if place.startswith("recipes/") else ROOT / "src" / "regard"
        assert (home / place).is_file(), place


@pytest.mark.parametrize("name", LESSONS.names())
def test_it_asks_and_claims(name: str):
    found = about(name)
    assert found.question.endswith("?")
    assert "\n" not in found.question
    assert len(found.claim.split(". ")) >= 2, "why it holds, in two or three sentences"
    assert found.source.startswith("regard/lessons/topics/")


def test_lessons_come_by_topic_and_each_once():
    grouped = lessons_by_topic()
    assert sorted(one.name for lessons in grouped.values() for one in lessons) == LESSONS.names()
    listed = [topic.name for topic in TOPICS]
    known = [topic for topic in grouped if topic in listed]
    assert list(grouped)[: len(known)] == sorted(known, key=listed.index)
    assert [one.name for one in grouped["attention by hand"]][:2] == ["argmax-by-hand", "copying"]


def test_what_comes_first_in_a_topic_exists():
    names = {one.name: topic for topic, lessons in lessons_by_topic().items() for one in lessons}
    for topic in TOPICS:
        assert {names[name] for name in topic.first} <= {topic.name}
        assert all((ROOT / study).is_file() for study in topic.studies)


def test_every_small_study_is_on_the_map():
    """A study is a recipe that asks a question."""
    asking = {
        f"recipes/{file.name}"
        for file in (ROOT / "recipes").glob("*.toml")
        if "question" in tomllib.loads(file.read_text(encoding="utf-8"))
    }
    assert asking <= {study for topic in TOPICS for study in topic.studies}


def test_an_exercise_belongs_to_a_lesson():
    assert set(exercise_names()) <= set(LESSONS.names())
    assert len(exercise_names()) >= 10


def test_an_unknown_lesson_is_guessed():
    with pytest.raises(UserError, match="unknown lesson 'copyng' — did you mean copying"):
        run_lesson("copyng")


def test_what_was_run_is_kept():
    ran = run_lesson("average-of-two", beta=10)
    told = ran.as_dict()
    assert told["parameters"] == {"beta": 10.0, "keys": 8, "seed": 0}
    assert told["passed"] is True
    assert len(told["table"]["rows"][0]) == len(told["table"]["columns"])


def test_a_lesson_without_a_question_is_a_mistake():
    def claim_only() -> Lesson:
        """It is so."""
        raise AssertionError(LessonTable)

    with pytest.raises(TypeError, match="its docstring is a question"):
        lesson("claim-only", topic="masks")(claim_only)
    assert "claim-only" not in LESSONS.names()
