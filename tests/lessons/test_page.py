"""Lesson pages work offline, contain no scripts, escape text, and have valid links."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from regard.lessons import LessonTable, below, page, run_lesson
from regard.lessons.booklet import write_booklet
from regard.lessons.page import booklet_html, course_html, lesson_html, section_html, typeset

VOID = {"meta", "br", "hr", "link", "img", "input"}


class PageParser(HTMLParser):
    """Asserts that elements are properly nested; collects ids, links and tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.ids += [value for key, value in attrs if key == "id"]
        self.links += [value for key, value in attrs if key == "href"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.ids += [value for key, value in attrs if key == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parse(page: str) -> PageParser:
    parser = PageParser()
    parser.feed(page)
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    assert not parser.tags & {"script", "link", "img", "iframe", "object"}
    return parser


@pytest.fixture(scope="module")
def runs():
    return [run_lesson(name) for name in ("copying", "three-masks")]


@pytest.fixture(scope="module")
def charts(runs):
    """Charts are slow to render: render them once."""
    return {run.info.name: page.inline_charts(run) for run in runs}


@pytest.fixture(autouse=True)
def cached_charts(charts, monkeypatch):
    monkeypatch.setattr(page, "inline_charts", lambda run, *_: charts[run.info.name])


def test_page_is_self_contained(runs):
    html = lesson_html(runs[0])
    parser = parse(html)
    assert "default-src 'none'" in html
    assert "svg" in parser.tags
    assert runs[0].info.question in html
    assert html.count('class="holds"') == len(runs[0].result.checks)
    assert not re.search(r"(https?:)?//", html.replace("http-equiv", ""))


def test_failed_check_is_marked(runs):
    result = replace(runs[0].result, checks=[below("too much", 2, 1)])
    html = lesson_html(replace(runs[0], result=result))
    assert 'class="fails"' in html
    assert "✗" in html


def test_text_is_escaped(runs):
    markup = "<script>alert(1)</script> & `<b>`"
    table = LessonTable((markup,), [(markup,)])
    result = replace(runs[0].result, table=table, caption=markup, checks=[below(markup, 1, 2)])
    html = lesson_html(replace(runs[0], result=result))
    parse(html)
    assert "<script" not in html


def test_text_cells_wrap(runs):
    table = LessonTable(
        ("what", "why"), [("a", "because it is a long explanation in words"), ("b", "no")]
    )
    html = lesson_html(replace(runs[0], result=replace(runs[0].result, table=table)))
    assert html.count("<td class=text>") == 2
    assert '<th scope="col" class=text>why' in html


def test_booklet_links_to_every_lesson(runs):
    parser = parse(booklet_html(runs))
    anchors = {link[1:] for link in parser.links if link.startswith("#")}
    assert anchors <= set(parser.ids)
    assert {"copying", "three-masks", "topic-masks"} <= anchors
    assert "break-before: page" in booklet_html(runs)


def test_booklet_lists_failed_checks(runs):
    result = replace(runs[0].result, checks=[below("too much", 2, 1)])
    html = booklet_html([replace(runs[0], result=result), runs[1]])
    assert "Not every check holds." in html
    assert "all hold" not in html


def test_course_page_links_lessons_and_studies(runs):
    html = course_html(runs)
    parser = parse(html)
    assert "booklet.html#copying" in parser.links
    assert "notebooks/masks.ipynb" in parser.links
    assert "recipes/masking.toml" in html


def test_booklet_files_are_written_and_links_resolve(runs, tmp_path):
    files = write_booklet(runs, tmp_path / "new")
    assert [file.name for file in files[:2]] == ["booklet.html", "course.html"]
    for file in files[:2]:
        for link in parse(file.read_text(encoding="utf-8")).links:
            target, _, _ = link.partition("#")
            assert not target or (file.parent / target).is_file(), link


def test_notebook_representation_is_one_section(runs):
    fragment = section_html(runs[0])
    assert fragment == runs[0]._repr_html_()
    assert runs[0].info.question in fragment
    assert fragment.count('class="holds"') == len(runs[0].result.checks)
    assert "script" not in parse(fragment).tags


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("k_a and ½μ_a μ_aᵀ", "k<sub>a</sub> and ½μ<sub>a</sub> μ<sub>a</sub>ᵀ"),
        ("q_pos·k_pos", "q<sub>pos</sub>·k<sub>pos</sub>"),
        ("e^−β and e^(−β(1 − c))", "e<sup>−β</sup> and e<sup>−β(1 − c)</sup>"),
        ("`a_b` max_steps <i>", "<code>a_b</code> max_steps &lt;i&gt;"),
    ],
)
def test_formulas_are_typeset(text, html):
    assert typeset(text) == html
