"""Drawings of masks: filled cells are allowed pairs, as text and as SVG."""

import re
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.masks.drawing import (
    DEFAULT_LENGTH,
    LEGEND,
    MAX_LENGTH,
    draw_svg,
    draw_text,
)
from regard.attention.masks.mask import Mask, causal, cross, padding, prefix, sliding_window
from regard.core.errors import UserError

TOKENS = ["Jill", "Birt", "[MASK]", "outdoor", "activities", "He", "was", "[MASK]", "hiking"]
SVG = "{http://www.w3.org/2000/svg}"


def mask_from_table(table: torch.Tensor) -> Mask:
    return Mask(lambda b, h, i, j: table[i, j], "a table")


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def parse_filled_cells(svg: str, queries: int, keys: int) -> torch.Tensor:
    """The mask that an SVG shows, parsed from its runs of filled cells."""
    root = ElementTree.fromstring(svg)
    ground = next(node for node in root.iter(f"{SVG}rect") if node.get("class") == "not")
    left, top = float(ground.get("x", "")), float(ground.get("y", ""))
    cell = float(ground.get("height", "")) / queries
    assert float(ground.get("width", "")) == pytest.approx(keys * cell, abs=0.5)
    path = next(node for node in root.iter(f"{SVG}path") if node.get("class") == "may")
    table = torch.zeros(queries, keys, dtype=torch.bool)
    for x, y, width in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v", path.get("d", "")):
        i, j = round((float(y) - top) / cell), round((float(x) - left) / cell)
        table[i, j : j + round(float(width) / cell)] = True
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

    def test_numbers_of_two_digits_are_stacked(self):
        above = draw_text(causal(), 12, labels=["x"] * 12).split("\n")[:2]
        assert above == [
            "                          1 1",
            "      0 1 2 3 4 5 6 7 8 9 0 1",
        ]

    def test_columns_are_aligned_in_any_script(self):
        drawn = draw_text(causal(), 3, labels=["日本", "a\nb", "e\u0301te\u0301"]).split("\n")
        assert drawn[1:] == ["0 日本  ■ · ·", "1 a\\nb  ■ ■ ·", "2 e\u0301te\u0301   ■ ■ ■"]

    def test_a_long_row_has_no_gaps(self):
        assert draw_text(causal(), 50).split("\n")[9] == "■" * 10 + "·" * 40


class TestSvg:
    @settings(max_examples=40, deadline=None)
    @given(queries=st.integers(1, 60), keys=st.integers(1, 60), seed=st.integers(0, 999))
    def test_filled_cells_are_the_mask(self, queries, keys, seed):
        generator = torch.Generator().manual_seed(seed)
        table = torch.rand(queries, keys, generator=generator) > 0.5
        svg = draw_svg(mask_from_table(table), queries, keys)
        assert torch.equal(parse_filled_cells(svg, queries, keys), table)

    def test_title_legend_and_labels(self):
        svg = prefix(torch.tensor([5])).draw_svg(9, labels=TOKENS)
        shown = texts(svg)
        assert shown[:2] == ["prefix", LEGEND]
        assert shown[2:] == TOKENS * 2
        assert LEGEND.startswith("row = query, column = key")

    def test_the_title_has_no_outer_brackets(self):
        assert texts((causal() & sliding_window(3)).draw_svg(3))[0] == "causal & sliding-window(3)"
        assert texts(draw_svg(causal(), 3, title="mine"))[0] == "mine"

    def test_columns_of_cross_attention_are_numbered(self):
        svg = cross(torch.ones(1, 2).bool()).draw_svg(3, 2, labels=["a", "b", "c"])
        assert texts(svg)[2:] == ["a", "b", "c", "0", "1"]

    def test_labels_are_escaped(self):
        labels = ["</text><script>alert(1)</script>", '"&<', "a\x00\n\ud800b"]
        svg = draw_svg(causal(), 3, labels=labels, title="<b>&")
        assert "<script" not in svg
        assert texts(svg)[0] == "<b>&"
        assert texts(svg)[3:5] == ['"&<', "a\\x00\\n\\ud800b"]
        svg.encode()

    def test_it_is_self_contained_and_follows_the_colour_scheme(self):
        svg = causal().draw_svg(5)
        assert "prefers-color-scheme: dark" in svg
        assert re.findall(r"https?://[^\"']+", svg) == ["http://www.w3.org/2000/svg"]
        # Inside a page the styles must not apply to the page's own text.
        style = ElementTree.fromstring(svg).findtext(f"{SVG}style") or ""
        selectors = re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]*\{", "", style))
        assert len(selectors) > 10
        assert all(selector.strip().startswith(".regard-mask") for selector in selectors)

    def test_everything_stays_inside_the_frame(self):
        svg = draw_svg(sliding_window(4), 40, labels=["W" * 60] * 40, title="t" * 200)
        root = ElementTree.fromstring(svg)
        width, height = float(root.get("width", "")), float(root.get("height", ""))
        ground = next(node for node in root.iter(f"{SVG}rect") if node.get("class") == "not")
        right = float(ground.get("x", "")) + float(ground.get("width", ""))
        assert right < width
        assert float(ground.get("y", "")) + float(ground.get("height", "")) < height
        assert all(len(text) <= 72 for text in texts(svg))
        assert float(ground.get("x", "")) > 24 * 10  # fits a label of 24 wide letters


@pytest.mark.parametrize("draw", [draw_text, draw_svg])
def test_invalid_sizes_are_refused(draw):
    with pytest.raises(UserError, match="2 labels for 3 queries"):
        draw(causal(), 3, labels=["a", "b"])
    with pytest.raises(UserError, match="0 queries over 0 keys"):
        draw(causal(), 0)


def test_a_notebook_draws_a_mask_at_a_length_that_fits_it() -> None:
    valid = torch.ones(1, 4, dtype=torch.bool)
    table = torch.ones(4, 4, dtype=torch.bool)
    assert (causal() & padding(valid))._repr_html_() == (causal() & padding(valid)).draw_svg(4)
    assert causal()._repr_html_() == causal().draw_svg(DEFAULT_LENGTH)
    assert Mask(lambda b, h, i, j: table[i, j], "a table of one's own")._repr_html_() is None
    assert padding(valid[:, :0])._repr_html_() is None
    assert padding(torch.ones(1, MAX_LENGTH + 1, dtype=torch.bool))._repr_html_() is None
