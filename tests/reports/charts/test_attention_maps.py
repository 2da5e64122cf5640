"""Attention maps and lines: what is drawn is what was weighed, and hostile words stay text."""

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
from regard.reports.charts.attention_lines import BROADEST, FAINTEST, attention_lines
from regard.reports.charts.attention_maps import (
    LEVELS,
    MOST_PLACES,
    attention_grid,
    attention_map,
    pooled,
    strength,
)
from regard.reports.charts.picture import PAGE, shortened
from regard.reports.charts.theme import DARK, LIGHT
from regard.reports.inspection_page import inspection_html, inspection_picture, parts_of
from regard.runs.inspection.inspection import AttentionMap, Inspection, TokenLoss, TokenRow

SVG = "{http://www.w3.org/2000/svg}"
weights_of_any_sign = st.floats(-1, 1)


def elements(svg: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{tag}"))


def causal(heads: int, places: int, seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(heads, places, places))
    weights = np.tril(np.exp(3 * scores))
    return weights / weights.sum(axis=-1, keepdims=True)


def words(count: int) -> list[str]:
    return [f"word{n}" for n in range(count)]


shapes = array_shapes(min_dims=2, max_dims=2, max_side=30)


@settings(max_examples=60)
@given(arrays(np.float64, shapes, elements=weights_of_any_sign), st.integers(1, 12))
def test_pooling_keeps_the_strongest_and_its_sign(weights, most):
    small = pooled(weights, most)
    assert max(small.shape) <= most
    assert np.abs(small).max() == np.abs(weights).max()
    assert set(np.unique(small)) <= set(np.unique(weights))


def test_a_map_that_fits_is_not_pooled():
    weights = causal(1, 8)[0]
    assert pooled(weights, 8) is weights


@given(st.lists(weights_of_any_sign, min_size=2, max_size=30))
def test_a_larger_weight_is_never_drawn_weaker(weights):
    levels = strength(np.array(sorted(weights)))
    assert (np.diff(levels) >= 0).all()
    assert np.abs(levels).max() <= LEVELS


def test_strengths_at_the_ends():
    assert strength(np.array([0.0, 1.0, 7.0, -1.0, 0.01])).tolist() == [0, 24, 24, -24, 2]


def drawn_cells(group: ElementTree.Element) -> dict[tuple[int, int], float]:
    """Where a map has colour, and how much: runs of cells, read back from its paths."""
    found = {}
    for path in group.iter(f"{SVG}path"):
        runs = re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path.get("d"))
        for x, y, across, back in runs:
            assert across == back
            for j in range(int(x), int(x) + int(across)):
                assert (int(y), j) not in found
                found[int(y), j] = float(path.get("fill-opacity"))
    return found


def test_each_head_has_a_map_with_its_own_cells():
    weights = {f"block.{n}.attention": causal(3, 7, seed=n) for n in range(2)}
    svg = attention_grid(weights, words(7), theme=LIGHT, width=600, title="all").svg()
    maps = [g for g in elements(svg, "g") if g.get("shape-rendering")]
    assert len(maps) == 6
    heads = [head for one in weights.values() for head in one]
    for drawn, head in zip(maps, heads, strict=True):
        cells, levels = drawn_cells(drawn), strength(head)
        assert set(cells) == {(i, j) for i, j in np.argwhere(levels).tolist()}
        assert all(abs(cells[i, j] - levels[i, j] / LEVELS) < 0.001 for i, j in cells)
    titles = [title.text for title in elements(svg, "title")]
    assert titles[4].startswith("block.1.attention, head 1; strongest: query 'word")


@pytest.mark.parametrize("heads", [1, 4, 12])
@pytest.mark.parametrize("width", [350, 860])
def test_small_maps_stay_inside_the_picture_and_apart(heads, width):
    svg = attention_grid({"a": causal(heads, 5)}, words(5), theme=DARK, width=width, title="").svg()
    height = float(ElementTree.fromstring(svg).get("height"))
    corners = []
    for group in elements(svg, "g"):
        x, y, across, down = map(float, re.findall(r"[\d.]+", group.get("transform")))
        assert x + 5 * across <= width + 1
        assert y + 5 * down <= height
        corners.append((x, y))
    assert len(set(corners)) == heads


def test_many_heads_of_long_rows_stay_small():
    weights = {f"block.{n}.attention": causal(12, 300, seed=n) for n in range(3)}
    svg = attention_grid(weights, words(300), theme=LIGHT, width=860, title="").svg()
    assert len(svg) < 36 * 96 * 96 * 8


def test_a_large_map_says_every_value():
    weights = causal(1, 6)[0]
    svg = attention_map(weights, words(6), words(6), theme=LIGHT, width=600).svg()
    said = {title.text for title in elements(svg, "title")}
    assert len(said) == 21
    assert f"query 'word5' → key 'word2': {weights[5, 2]:.2f}" in said or weights[5, 2] < 0.005


def test_cross_attention_has_words_of_both_sides():
    weights = np.full((2, 3), 1 / 3)
    for draw in (attention_map, attention_lines):
        svg = draw(weights, ["ein", "Haus"], ["a", "house", "."], theme=LIGHT, width=500).svg()
        texts = [text.text for text in elements(svg, "text")]
        assert {"ein", "Haus", "a", "house", "."} <= set(texts)


@settings(max_examples=25)
@given(arrays(np.float64, (4, 5), elements=weights_of_any_sign))
def test_lines_are_as_wide_as_their_weights(weights):
    queries, keys = words(4), [f"key{n}" for n in range(5)]
    svg = attention_lines(weights, queries, keys, theme=LIGHT, width=500).svg()
    widths = sorted(float(line.get("stroke-width")) for line in elements(svg, "path"))
    kept = np.abs(weights[np.abs(weights) >= FAINTEST])
    assert widths == pytest.approx(sorted(BROADEST * kept), abs=0.006)


def test_weights_below_zero_have_another_colour():
    weights = np.array([[0.5, -0.5], [0.0, 1.0]])
    for draw in (attention_map, attention_lines):
        svg = draw(weights, words(2), words(2), theme=LIGHT, width=400).svg()
        styles = {path.get("style") for path in elements(svg, "path")}
        assert len(styles) == 2
        assert any(LIGHT.test in style for style in styles)


@pytest.mark.parametrize("theme", [LIGHT, DARK, PAGE], ids=lambda theme: theme.name)
def test_words_from_anywhere_stay_text(theme):
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


def inspected(places: int = 6, text: str = "some words", **changes) -> Inspection:
    row = TokenRow(tuple(range(places)), tuple(words(places)))
    source = TokenRow((0, 1, 2), ("<start>", "a", "b"))
    cross = np.full((2, places, 3), 1 / 3)
    cross[1] = np.eye(3)[np.zeros(places, dtype=int)]
    table = {
        "text": text,
        "row": row,
        "source": source,
        "losses": (TokenLoss("word1", 2.5), TokenLoss("<b>", 0.5)),
        "maps": (
            AttentionMap("decoder.block.0.attention", row, row, causal(2, places)),
            AttentionMap("decoder.block.0.cross_attention", row, source, cross),
            AttentionMap("decoder.block.1.attention", row, row, causal(2, places, seed=1)),
        ),
        "remarks": ("a remark",),
    }
    return Inspection(**(table | changes))


def test_the_most_focused_head_is_chosen_unless_one_is_named():
    own, cross = parts_of(inspected())
    assert cross.name == "decoder.block.0.cross_attention, head 1"
    assert cross.entropy == 0
    assert own.entropy == min(one.entropies.min() for one in own.maps)
    own, _ = parts_of(inspected(), layer=1, head=0)
    assert (own.name, own.why) == ("decoder.block.1.attention, head 0", "as asked")
    own, _ = parts_of(inspected(), layer=1)
    assert own.chosen.layer == 1
    assert own.why == "the most focused of layer 1"


def test_a_part_without_the_layer_shows_its_most_focused():
    _, cross = parts_of(inspected(), layer=1, head=0)
    assert cross.chosen.layer == 0


@pytest.mark.parametrize(
    ("choice", "says"),
    [({"layer": 2}, "--layer 2 is not there: this model has 0 to 1"), ({"head": -1}, "--head -1")],
)
def test_layers_and_heads_that_are_not_there(choice, says):
    with pytest.raises(UserError, match=says):
        parts_of(inspected(), **choice)


def test_the_page_is_self_contained_and_escapes_everything():
    seen = inspected(text=HOSTILE, remarks=(HOSTILE,), losses=(TokenLoss(HOSTILE, 1.0),))
    page = inspection_html(seen, parts_of(seen), run=HOSTILE)
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert "<script" not in page
    assert "<img" not in page
    assert "{{ 7 * 7 }}" in page
    assert not re.search(r"(src|href)=", page.replace("src=x", ""))
    assert page.count("<svg ") == 2 * 3 * 2


def test_the_page_says_what_it_leaves_out_and_what_is_invalid():
    seen = inspected(places=MOST_PLACES + 10, invalid=("it sees the future",))
    page = inspection_html(seen, parts_of(seen), run="run")
    assert f"The first {MOST_PLACES} tokens" in page
    assert "strongest of up to 2 × 2" in page
    assert "Invalid.</strong> it sees the future." in page
    short = inspection_html(inspected(), parts_of(inspected()), run="run")
    assert "The first" not in short
    assert "Invalid" not in short


def test_a_single_token_can_be_shown():
    row = TokenRow((1,), ("<start>",))
    one = AttentionMap("block.0.attention", row, row, np.zeros((1, 1, 1)))
    seen = Inspection("a", row, None, (), (one,))
    assert "<svg" in inspection_html(seen, parts_of(seen), run="run")


def test_the_picture_is_a_png_of_its_size():
    seen = inspected()
    picture = inspection_picture(seen, parts_of(seen), run="run", theme=LIGHT)
    image = picture.png(theme=LIGHT, scale=1.0, margin=10)
    assert image.startswith(b"\x89PNG")
    assert int.from_bytes(image[16:20]) == round(picture.width) + 20


def test_shortened_never_grows():
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abc", 3) == "abc"
