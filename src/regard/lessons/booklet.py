"""Everything `regard lesson all` leaves behind: booklet, map of course topics, notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.lessons.notebooks import notebook
from regard.lessons.page import anchor, booklet_html, by_topic, course_html
from regard.lessons.run_lesson import LessonRun
from regard.reports.run_report import write_page


def write_booklet(all_ran: Sequence[LessonRun], folder: Path) -> list[Path]:
    """Write them into `folder`; what was written, in reading order."""
    pages = {
        folder / "booklet.html": booklet_html(all_ran),
        folder / "course.html": course_html(all_ran),
    }
    for topic, lessons in by_topic(all_ran).items():
        file = folder / "notebooks" / f"{anchor(topic)}.ipynb"
        pages[file] = notebook(topic, [ran.about for ran in lessons])
    for file, text in pages.items():
        write_page(file, text)
    return list(pages)
