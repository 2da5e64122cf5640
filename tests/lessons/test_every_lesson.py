"""Every lesson: its checks pass, its chart renders, and the files it cites exist."""

import ast
import inspect
import textwrap
import tomllib
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.lessons import (
    LESSONS,
    Lesson,
    LessonTable,
    lesson,
    lesson_info,
    lessons_by_topic,
    run_lesson,
)
from regard.lessons.exercise import exercise_names
from regard.lessons.topics import TOPICS
from regard.reports.charts.theme import DARK, LIGHT

ROOT = Path(__file__).parents[2]
FAST = [name for name in LESSONS.names() if lesson_info(name).duration == "seconds"]


@pytest.mark.parametrize("name", FAST)
def test_claim_holds(name: str):
    run = run_lesson(name)
    assert run.result.checks
    assert [check.as_dict() for check in run.result.checks if not check.passed] == []
    assert run.result.table.rows
    assert run.result.caption.endswith(".")
    for theme, width in ((LIGHT, 860), (DARK, 360)):
        spec = run.result.chart(theme=theme, width=width).to_dict()
        assert spec["width"] == width
    assert run.result.see_also == cited_paths(name)


def cited_paths(name: str) -> list[str]:
    """The argument `see_also=` in the lesson's source, without running it: some train."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(lesson_info(name).function))).body
    (paths,) = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "see_also"
    )
    return ast.literal_eval(paths)


@pytest.mark.parametrize("name", LESSONS.names())
def test_cited_files_exist(name: str):
    paths = cited_paths(name)
    assert any(path.endswith(".py") for path in paths), "cites no code"
    assert any(path.startswith("recipes/") for path in paths), "cites no recipe"
    for path in paths:
        folder = ROOT if path.startswith("recipes/") else ROOT / "src" / "regard"
        assert (folder / path).is_file(), path


@pytest.mark.parametrize("name", LESSONS.names())
def test_docstring_has_a_question_and_a_claim(name: str):
    info = lesson_info(name)
    assert info.question.endswith("?")
    assert "\n" not in info.question
    assert len(info.claim.split(". ")) >= 2, "the claim and why it holds"
    assert info.source.startswith("regard/lessons/topics/")


def test_lessons_are_grouped_by_topic_in_course_order():
    grouped = lessons_by_topic()
    assert sorted(one.name for lessons in grouped.values() for one in lessons) == LESSONS.names()
    listed = [topic.name for topic in TOPICS]
    known = [topic for topic in grouped if topic in listed]
    assert list(grouped)[: len(known)] == sorted(known, key=listed.index)
    assert [one.name for one in grouped["attention by hand"]][:2] == ["argmax-by-hand", "copying"]


def test_order_and_studies_of_topics_exist():
    names = {one.name: topic for topic, lessons in lessons_by_topic().items() for one in lessons}
    for topic in TOPICS:
        assert {names[name] for name in topic.order} <= {topic.name}
        assert all((ROOT / study).is_file() for study in topic.studies)


def test_every_small_study_belongs_to_a_topic():
    """A study is a recipe with a question."""
    studies = {
        f"recipes/{file.name}"
        for file in (ROOT / "recipes").glob("*.toml")
        if "question" in tomllib.loads(file.read_text(encoding="utf-8"))
    }
    assert studies <= {study for topic in TOPICS for study in topic.studies}


def test_every_exercise_belongs_to_a_lesson():
    assert set(exercise_names()) <= set(LESSONS.names())
    assert len(exercise_names()) >= 10


def test_unknown_lesson_suggests_a_name():
    with pytest.raises(UserError, match=r"'copyng' .* did you mean copying"):
        run_lesson("copyng")


def test_run_records_parameters_and_result():
    record = run_lesson("average-of-two", beta=10).as_dict()
    assert record["parameters"] == {"beta": 10.0, "keys": 8, "seed": 0}
    assert record["passed"] is True
    assert len(record["table"]["rows"][0]) == len(record["table"]["columns"])


def test_lesson_without_a_question_is_refused():
    def claim_only() -> Lesson:
        """It is so."""
        raise AssertionError(LessonTable)

    with pytest.raises(TypeError, match="its docstring is a question"):
        lesson("claim-only", topic="masks")(claim_only)
    assert "claim-only" not in LESSONS.names()
