"""Notebooks: the form that Jupyter reads, and cells that run as they stand."""

import json
import re

import pytest

from regard.lessons import lessons_by_topic, run_lesson
from regard.lessons.notebooks import notebook


@pytest.mark.parametrize("topic", lessons_by_topic())
def test_a_topic_is_a_notebook(topic: str):
    lessons = lessons_by_topic()[topic]
    made = json.loads(notebook(topic, lessons))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in made["cells"]]
    assert len(ids) == len(set(ids)) == 2 + 2 * len(lessons)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one) for one in ids)
    for cell in made["cells"]:
        wanted = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            wanted |= {"execution_count", "outputs"}
            compile("".join(cell["source"]), "cell", "exec")
        assert set(cell) == wanted


def test_a_cell_runs_the_lesson_with_its_defaults():
    made = json.loads(notebook("masks", lessons_by_topic()["masks"]))
    (cell,) = (cell for cell in made["cells"] if cell["id"] == "three-masks-run")
    ran = eval("".join(cell["source"]), {"run_lesson": run_lesson})
    assert (ran.about.name, ran.passed) == ("three-masks", True)
