"""Pages of lessons open offline, run nothing, escape what they show, and link to what is there."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from regard.lessons import LessonTable, below, page, run_lesson
from regard.lessons.booklet import write_booklet
from regard.lessons.page import booklet_html, course_html, lesson_html, section_html, typeset

VOID = {"meta", "br", "hr", "link", "img", "input"}


class Reader(HTMLParser):
    """Refuses elements that are not closed in their order; keeps ids and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.ids += [value for key, value in attrs if key == "id"]
        self.links += [value for key, value in attrs if key == "href"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)
        self.ids += [value for key, value in attrs if key == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert not reader.seen & {"script", "link", "img", "iframe", "object"}
    return reader


@pytest.fixture(scope="module")
def ran():
    return [run_lesson(name) for name in ("copying", "three-masks")]


@pytest.fixture(scope="module")
def drawn(ran):
    """Drawing is what takes long: once is enough."""
    return {one.about.name: page.charts_of(one) for one in ran}


@pytest.fixture(autouse=True)
def drawn_once(drawn, monkeypatch):
    monkeypatch.setattr(page, "charts_of", lambda ran: drawn[ran.about.name])


def test_a_page_stands_on_its_own(ran):
    html = lesson_html(ran[0])
    reader = read(html)
    assert "default-src 'none'" in html
    assert "svg" in reader.seen
    assert ran[0].about.question in html
    assert html.count('class="holds"') == len(ran[0].result.checks)
    assert not re.search(r"(https?:)?//", html.replace("http-equiv", ""))


def test_a_failed_check_is_marked(ran):
    result = replace(ran[0].result, checks=[below("too much", 2, 1)])
    html = lesson_html(replace(ran[0], result=result))
    assert 'class="fails"' in html
    assert "✗" in html


def test_text_is_escaped(ran):
    nasty = "<script>alert(1)</script> & `<b>`"
    table = LessonTable((nasty,), [(nasty,)])
    result = replace(ran[0].result, table=table, caption=nasty, checks=[below(nasty, 1, 2)])
    html = lesson_html(replace(ran[0], result=result))
    read(html)
    assert "<script" not in html


def test_phrases_in_tables_may_break(ran):
    table = LessonTable(
        ("what", "why"), [("a", "because it is a long story, told in words"), ("b", "no")]
    )
    html = lesson_html(replace(ran[0], result=replace(ran[0].result, table=table)))
    assert html.count("<td class=told>") == 2
    assert '<th scope="col" class=told>why' in html


def test_the_booklet_links_to_every_lesson(ran):
    reader = read(booklet_html(ran))
    inside = {link[1:] for link in reader.links if link.startswith("#")}
    assert inside <= set(reader.ids)
    assert {"copying", "three-masks", "topic-masks"} <= inside
    assert "break-before: page" in booklet_html(ran)


def test_the_booklet_says_what_does_not_hold(ran):
    result = replace(ran[0].result, checks=[below("too much", 2, 1)])
    html = booklet_html([replace(ran[0], result=result), ran[1]])
    assert "Not every check holds." in html
    assert "all hold" not in html


def test_course_topics_lead_to_lessons_and_studies(ran):
    html = course_html(ran)
    reader = read(html)
    assert "booklet.html#copying" in reader.links
    assert "notebooks/masks.ipynb" in reader.links
    assert "recipes/masking.toml" in html


def test_everything_is_written_and_links_lead_somewhere(ran, tmp_path):
    files = write_booklet(ran, tmp_path / "new")
    assert [file.name for file in files[:2]] == ["booklet.html", "course.html"]
    for file in files[:2]:
        for link in read(file.read_text(encoding="utf-8")).links:
            target, _, _ = link.partition("#")
            assert not target or (file.parent / target).is_file(), link


def test_a_notebook_shows_a_lesson(ran):
    piece = section_html(ran[0])
    assert piece == ran[0]._repr_html_()
    assert piece.count("<svg") == 1
    read(piece)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("k_a and ½μ_a μ_aᵀ", "k<sub>a</sub> and ½μ<sub>a</sub> μ<sub>a</sub>ᵀ"),
        ("q_pos·k_pos", "q<sub>pos</sub>·k<sub>pos</sub>"),
        ("e^−β and e^(−β(1 − c))", "e<sup>−β</sup> and e<sup>−β(1 − c)</sup>"),
        ("`a_b` max_steps <i>", "<code>a_b</code> max_steps &lt;i&gt;"),
    ],
)
def test_formulas_are_set(text, html):
    assert typeset(text) == html
