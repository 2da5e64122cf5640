"""Masks draw themselves: what is filled is what may attend, in the terminal and as a picture."""

import re
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.masks.drawing import LEGEND, draw_svg, draw_text
from regard.attention.masks.mask import Mask, causal, cross, prefix, sliding_window
from regard.core.errors import UserError

TOKENS = ["Jill", "Birt", "[MASK]", "outdoor", "activities", "He", "was", "[MASK]", "hiking"]
SVG = "{http://www.w3.org/2000/svg}"


def of_table(table: torch.Tensor) -> Mask:
    return Mask(lambda b, h, i, j: table[i, j], "a table")


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def filled_in(svg: str, queries: int, keys: int) -> torch.Tensor:
    """The table that a picture shows, read back from the runs of filled cells."""
    root = ElementTree.fromstring(svg)
    ground = next(node for node in root.iter(f"{SVG}rect") if node.get("class") == "not")
    left, top = float(ground.get("x", "")), float(ground.get("y", ""))
    cell = float(ground.get("height", "")) / queries
    assert float(ground.get("width", "")) == pytest.approx(keys * cell, abs=0.5)
    path = next(node for node in root.iter(f"{SVG}path") if node.get("class") == "may")
    table = torch.zeros(queries, keys, dtype=torch.bool)
    for x, y, wide in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v", path.get("d", "")):
        i, j = round((float(y) - top) / cell), round((float(x) - left) / cell)
        table[i, j : j + round(float(wide) / cell)] = True
    return table


class TestText:
    def test_plain(self):
        assert draw_text(causal(), 3) == "■ · ·\n■ ■ ·\n■ ■ ■"
        assert draw_text(causal(), 2, 3) == "■ · ·\n■ ■ ·"
        assert causal().draw(3) == draw_text(causal(), 3)

    def test_with_labels(self):
        assert draw_text(prefix(torch.tensor([2])), 3, labels=["Jill", "[MASK]", "He"]) == (
            "          0 1 2\n0 Jill    ■ ■ ·\n1 [MASK]  ■ ■ ·\n2 He      ■ ■ ■"
        )

    def test_two_digits_stand_above_one_another(self):
        above = draw_text(causal(), 12, labels=["x"] * 12).split("\n")[:2]
        assert above == [
            "                          1 1",
            "      0 1 2 3 4 5 6 7 8 9 0 1",
        ]

    def test_columns_stand_under_one_another_whatever_the_script(self):
        drawn = draw_text(causal(), 3, labels=["日本", "a\nb", "e\u0301te\u0301"]).split("\n")
        assert drawn[1:] == ["0 日本  ■ · ·", "1 a\\nb  ■ ■ ·", "2 e\u0301te\u0301   ■ ■ ■"]

    def test_a_long_row_is_closed_up(self):
        assert draw_text(causal(), 50).split("\n")[9] == "■" * 10 + "·" * 40


class TestPicture:
    @settings(max_examples=40, deadline=None)
    @given(queries=st.integers(1, 60), keys=st.integers(1, 60), seed=st.integers(0, 999))
    def test_it_shows_the_mask(self, queries, keys, seed):
        generator = torch.Generator().manual_seed(seed)
        table = torch.rand(queries, keys, generator=generator) > 0.5
        svg = draw_svg(of_table(table), queries, keys)
        assert torch.equal(filled_in(svg, queries, keys), table)

    def test_it_says_what_it_shows(self):
        svg = prefix(torch.tensor([5])).draw_svg(9, labels=TOKENS)
        shown = texts(svg)
        assert shown[:2] == ["prefix", LEGEND]
        assert shown[2:] == TOKENS * 2
        assert LEGEND == "row = query, column = key, filled = may attend"

    def test_a_composed_name_needs_no_brackets(self):
        assert texts((causal() & sliding_window(3)).draw_svg(3))[0] == "causal & sliding-window(3)"
        assert texts(draw_svg(causal(), 3, title="mine"))[0] == "mine"

    def test_columns_of_another_sequence_are_numbered(self):
        svg = cross(torch.ones(1, 2).bool()).draw_svg(3, 2, labels=["a", "b", "c"])
        assert texts(svg)[2:] == ["a", "b", "c", "0", "1"]

    def test_labels_cannot_break_out(self):
        bad = ["</text><script>alert(1)</script>", '"&<', "a\x00\n\ud800b"]
        svg = draw_svg(causal(), 3, labels=bad, title="<b>&")
        assert "<script" not in svg
        assert texts(svg)[0] == "<b>&"
        assert texts(svg)[3:5] == ['"&<', "a\\x00\\n\\ud800b"]
        svg.encode()

    def test_it_needs_nothing_else_and_follows_the_scheme(self):
        svg = causal().draw_svg(5)
        assert "prefers-color-scheme: dark" in svg
        assert re.findall(r"https?://[^\"']+", svg) == ["http://www.w3.org/2000/svg"]
        # Inside a page the styles must not reach the page's own text.
        style = ElementTree.fromstring(svg).findtext(f"{SVG}style") or ""
        selectors = re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]*\{", "", style))
        assert len(selectors) > 10
        assert all(one.strip().startswith(".regard-mask") for one in selectors)

    def test_everything_stays_inside_the_frame(self):
        svg = draw_svg(sliding_window(4), 40, labels=["W" * 60] * 40, title="t" * 200)
        root = ElementTree.fromstring(svg)
        width, height = float(root.get("width", "")), float(root.get("height", ""))
        ground = next(node for node in root.iter(f"{SVG}rect") if node.get("class") == "not")
        right = float(ground.get("x", "")) + float(ground.get("width", ""))
        assert right < width
        assert float(ground.get("y", "")) + float(ground.get("height", "")) < height
        assert all(len(text) <= 72 for text in texts(svg))
        assert float(ground.get("x", "")) > 24 * 10  # room for a label of 24 broad letters


@pytest.mark.parametrize("draw", [draw_text, draw_svg])
def test_what_cannot_be_drawn_is_told(draw):
    with pytest.raises(UserError, match="2 labels for 3 queries"):
        draw(causal(), 3, labels=["a", "b"])
    with pytest.raises(UserError, match="0 queries over 0 keys"):
        draw(causal(), 0)
