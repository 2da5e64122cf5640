"""Notebooks: valid nbformat, and cells that run."""

import json
import re

import pytest

import regard
from regard.lessons import lessons_by_topic
from regard.lessons.notebooks import notebook


@pytest.mark.parametrize("topic", lessons_by_topic())
def test_notebook_of_a_topic_is_valid_nbformat(topic: str):
    lessons = lessons_by_topic()[topic]
    document = json.loads(notebook(topic, lessons))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in document["cells"]]
    assert len(ids) == len(set(ids)) == 2 + 2 * len(lessons)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell_id) for cell_id in ids)
    for cell in document["cells"]:
        keys = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            keys |= {"execution_count", "outputs"}
            compile("".join(cell["source"]), "cell", "exec")
        assert set(cell) == keys


def test_code_cells_run_lessons_with_their_defaults():
    document = json.loads(notebook("masks", lessons_by_topic()["masks"]))
    (cell,) = (cell for cell in document["cells"] if cell["id"] == "three-masks-run")
    run = eval("".join(cell["source"]), {"regard": regard})
    assert (run.info.name, run.passed) == ("three-masks", True)
