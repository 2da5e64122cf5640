"""Attention maps and lines show the given weights, and hostile tokens stay text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tests.synthetic_run import HOSTILE

from regard.core.errors import UserError
from regard.reports.charts.attention_lines import MAX_LINE_WIDTH, MIN_WEIGHT, attention_lines
from regard.reports.charts.attention_maps import (
    LEVELS,
    MAX_TOKENS,
    attention_grid,
    attention_map,
    colour_level,
    pool_strongest,
)
from regard.reports.charts.picture import PAGE, truncate
from regard.reports.charts.theme import DARK, LIGHT
from regard.reports.inspection_page import attention_sections, inspection_html, inspection_picture
from regard.runs.inspection.inspection import AttentionMap, Inspection, TokenLoss, TokenRow

SVG = "{http://www.w3.org/2000/svg}"
signed_weights = st.floats(-1, 1)


def elements(svg: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{tag}"))


def causal(heads: int, length: int, seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(heads, length, length))
    weights = np.tril(np.exp(3 * scores))
    return weights / weights.sum(axis=-1, keepdims=True)


def tokens(count: int) -> list[str]:
    return [f"word{n}" for n in range(count)]


shapes = array_shapes(min_dims=2, max_dims=2, max_side=30)


@given(arrays(np.float64, shapes, elements=signed_weights), st.integers(1, 12))
def test_pooling_keeps_the_strongest_weight_and_its_sign(weights, max_size):
    small = pool_strongest(weights, max_size)
    assert max(small.shape) <= max_size
    assert np.abs(small).max() == np.abs(weights).max()
    assert set(np.unique(small)) <= set(np.unique(weights))


def test_small_map_is_not_pooled():
    weights = causal(1, 8)[0]
    assert pool_strongest(weights, 8) is weights


@given(st.lists(signed_weights, min_size=2, max_size=30))
def test_colour_level_is_monotonic(weights):
    levels = colour_level(np.array(sorted(weights)))
    assert (np.diff(levels) >= 0).all()
    assert np.abs(levels).max() <= LEVELS


def test_colour_level_at_the_limits():
    assert colour_level(np.array([0.0, 1.0, 7.0, -1.0, 0.01])).tolist() == [0, 24, 24, -24, 2]


def drawn_cells(group: ElementTree.Element) -> dict[tuple[int, int], float]:
    """Opacity of each drawn cell, parsed from the paths of a map."""
    found = {}
    for path in group.iter(f"{SVG}path"):
        runs = re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path.get("d"))
        for x, y, across, back in runs:
            assert across == back
            for j in range(int(x), int(x) + int(across)):
                assert (int(y), j) not in found
                found[int(y), j] = float(path.get("fill-opacity"))
    return found


def test_each_head_has_its_own_map():
    weights = {f"block.{n}.attention": causal(3, 7, seed=n) for n in range(2)}
    svg = attention_grid(weights, tokens(7), theme=LIGHT, width=600, title="all").svg()
    maps = [g for g in elements(svg, "g") if g.get("shape-rendering")]
    assert len(maps) == 6
    heads = [head for one in weights.values() for head in one]
    for drawn, head in zip(maps, heads, strict=True):
        cells, levels = drawn_cells(drawn), colour_level(head)
        assert set(cells) == {(i, j) for i, j in np.argwhere(levels).tolist()}
        assert all(abs(cells[i, j] - levels[i, j] / LEVELS) < 0.001 for i, j in cells)
    titles = [title.text for title in elements(svg, "title")]
    assert titles[4].startswith("block.1.attention, head 1; strongest: query 'word")


@pytest.mark.parametrize("heads", [1, 4, 12])
@pytest.mark.parametrize("width", [350, 860])
def test_small_maps_stay_inside_the_picture_without_overlap(heads, width):
    svg = attention_grid(
        {"a": causal(heads, 5)}, tokens(5), theme=DARK, width=width, title=""
    ).svg()
    height = float(ElementTree.fromstring(svg).get("height"))
    corners = []
    for group in elements(svg, "g"):
        x, y, across, down = map(float, re.findall(r"[\d.]+", group.get("transform")))
        assert x + 5 * across <= width + 1
        assert y + 5 * down <= height
        corners.append((x, y))
    assert len(set(corners)) == heads


def test_svg_of_many_long_heads_stays_small():
    weights = {f"block.{n}.attention": causal(12, 300, seed=n) for n in range(3)}
    svg = attention_grid(weights, tokens(300), theme=LIGHT, width=860, title="").svg()
    assert len(svg) < 36 * 96 * 96 * 8


def test_large_map_has_a_tooltip_for_every_weight():
    weights = causal(1, 6)[0]
    svg = attention_map(weights, tokens(6), tokens(6), theme=LIGHT, width=600).svg()
    tooltips = {title.text for title in elements(svg, "title")}
    assert len(tooltips) == 21
    assert f"query 'word5' → key 'word2': {weights[5, 2]:.2f}" in tooltips or weights[5, 2] < 0.005


def test_cross_attention_shows_tokens_of_both_sides():
    weights = np.full((2, 3), 1 / 3)
    for draw in (attention_map, attention_lines):
        svg = draw(weights, ["ein", "Haus"], ["a", "house", "."], theme=LIGHT, width=500).svg()
        texts = [text.text for text in elements(svg, "text")]
        assert {"ein", "Haus", "a", "house", "."} <= set(texts)


@settings(max_examples=25)
@given(arrays(np.float64, (4, 5), elements=signed_weights))
def test_line_width_is_proportional_to_weight(weights):
    queries, keys = tokens(4), [f"key{n}" for n in range(5)]
    svg = attention_lines(weights, queries, keys, theme=LIGHT, width=500).svg()
    widths = sorted(float(line.get("stroke-width")) for line in elements(svg, "path"))
    kept = np.abs(weights[np.abs(weights) >= MIN_WEIGHT])
    assert widths == pytest.approx(sorted(MAX_LINE_WIDTH * kept), abs=0.006)


def test_negative_weights_have_another_colour():
    weights = np.array([[0.5, -0.5], [0.0, 1.0]])
    for draw in (attention_map, attention_lines):
        svg = draw(weights, tokens(2), tokens(2), theme=LIGHT, width=400).svg()
        colours = {(path.get("fill"), path.get("stroke")) for path in elements(svg, "path")}
        assert len(colours) == 2
        assert any(LIGHT.test in colour for colour in colours)


@pytest.mark.parametrize("theme", [LIGHT, DARK, PAGE], ids=lambda theme: theme.name)
def test_hostile_tokens_stay_text(theme):
    tokens = [HOSTILE, "</title></svg>", "\x00\n", "\ud800", "日本語", "مرحبا", "&amp;"]
    weights = causal(2, 7)
    pictures = [
        attention_grid({HOSTILE: weights}, tokens, theme=theme, width=400, title=HOSTILE).svg(),
        attention_map(weights[0], tokens, tokens, theme=theme, width=400, title=HOSTILE).svg(),
        attention_lines(weights[0], tokens, tokens, theme=theme, width=400, title=HOSTILE).svg(),
    ]
    for svg in pictures:
        tags = {one.tag.removeprefix(SVG) for one in ElementTree.fromstring(svg).iter()}
        assert tags <= {"svg", "g", "path", "rect", "text", "title"}
    assert "日本語" in pictures[1]
    assert [text.text for text in elements(pictures[1], "text")][6] == "&amp;"


def attention_map_of(name, weights, keys="row"):
    return AttentionMap(name=name, queries="row", keys=keys, weights=weights)


def inspected(length: int = 6, text: str = "some words", **changes) -> Inspection:
    row = TokenRow(tuple(range(length)), tuple(tokens(length)))
    source = TokenRow((0, 1, 2), ("<start>", "a", "b"))
    cross = np.full((2, length, 3), 1 / 3)
    cross[1] = np.eye(3)[np.zeros(length, dtype=int)]
    table = {
        "text": text,
        "row": row,
        "source": source,
        "losses": (TokenLoss("word1", 2.5), TokenLoss("<b>", 0.5)),
        "attention": (
            attention_map_of("decoder.block.0.attention", weights=causal(2, length)),
            attention_map_of("decoder.block.0.cross_attention", keys="source", weights=cross),
            attention_map_of("decoder.block.1.attention", weights=causal(2, length, seed=1)),
        ),
        "remarks": ("a remark",),
    }
    return Inspection(**(table | changes))


def test_most_focused_head_is_the_default():
    self_attention, cross = attention_sections(inspected())
    assert cross.name == "decoder.block.0.cross_attention, head 1"
    assert cross.entropy == 0
    assert self_attention.entropy == min(one.entropies.min() for one in self_attention.maps)
    self_attention, _ = attention_sections(inspected(), layer=1, head=0)
    assert (self_attention.name, self_attention.reason) == (
        "decoder.block.1.attention, head 0",
        "as requested",
    )
    self_attention, _ = attention_sections(inspected(), layer=1)
    assert self_attention.chosen.layer == 1
    assert self_attention.reason == "the most focused of layer 1"


def test_section_without_the_layer_shows_its_most_focused_head():
    _, cross = attention_sections(inspected(), layer=1, head=0)
    assert cross.chosen.layer == 0


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"layer": 2}, "--layer 2 does not exist: this model has 0 to 1"),
        ({"head": -1}, "--head -1"),
    ],
)
def test_unknown_layer_or_head_is_refused(choice, message):
    with pytest.raises(UserError, match=message):
        attention_sections(inspected(), **choice)


def test_inspection_page_is_self_contained_and_escaped():
    seen = inspected(text=HOSTILE, remarks=(HOSTILE,), losses=(TokenLoss(HOSTILE, 1.0),))
    page = inspection_html(seen, attention_sections(seen), run=HOSTILE)
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert "<script" not in page
    assert "<img" not in page
    assert "{{ 7 * 7 }}" in page
    assert not re.search(r"(src|href)=", page.replace("src=x", ""))
    assert page.count("<svg ") == 2 * 3 * 2


def test_inspection_page_reports_truncation_and_invalid_runs():
    seen = inspected(length=MAX_TOKENS + 10, invalid=("it sees the future",))
    page = inspection_html(seen, attention_sections(seen), run="run")
    assert f"the first {MAX_TOKENS} tokens" in page
    assert "strongest of up to 2 × 2" in page
    assert "Invalid.</strong> it sees the future." in page
    short = inspection_html(inspected(), attention_sections(inspected()), run="run")
    assert "the first" not in short
    assert "Invalid" not in short


def test_single_token_is_drawn():
    row = TokenRow((1,), ("<start>",))
    one = attention_map_of("block.0.attention", weights=np.zeros((1, 1, 1)))
    seen = Inspection(text="a", row=row, source=None, losses=(), attention=(one,))
    assert "<svg" in inspection_html(seen, attention_sections(seen), run="run")


def test_inspection_png_has_the_size_of_the_picture():
    seen = inspected()
    picture = inspection_picture(seen, attention_sections(seen), run="run", theme=LIGHT)
    image = picture.png(theme=LIGHT, scale=1.0, margin=10)
    assert image.startswith(b"\x89PNG")
    assert int.from_bytes(image[16:20]) == round(picture.width) + 20


def test_truncate():
    assert truncate("abcdef", 4) == "abc…"
    assert truncate("abc", 3) == "abc"
