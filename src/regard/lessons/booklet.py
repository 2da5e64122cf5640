"""Files that `regard lesson all` writes: booklet, map of course topics, notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.core.files import write_output
from regard.lessons.notebooks import notebook
from regard.lessons.page import anchor, booklet_html, course_html, group_by_topic
from regard.lessons.run_lesson import LessonRun


def write_booklet(runs: Sequence[LessonRun], folder: Path) -> list[Path]:
    """Write the files into `folder`; returns their paths in reading order."""
    pages = {
        folder / "booklet.html": booklet_html(runs),
        folder / "course.html": course_html(runs),
    }
    for topic, topic_runs in group_by_topic(runs).items():
        file = folder / "notebooks" / f"{anchor(topic)}.ipynb"
        pages[file] = notebook(topic, [run.info for run in topic_runs])
    for file, text in pages.items():
        write_output(file, text)
    return list(pages)
