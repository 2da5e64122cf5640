"""Planted overlap in built-in corpora, sort of edit by sort of edit; datasketch as an oracle."""

from __future__ import annotations

import pytest
from benchmarks.overlap.edits import OTHER_WORDS, SAME_WORDS, SHORT_ROWS
from benchmarks.overlap.planted import plant_and_search, reference_similarity

from regard.data.builtin import BUILTIN, read_rows
from regard.data.overlap.normalise import normalise
from regard.data.overlap.search import find_overlaps

CORPORA = {
    "python-docs": "text",
    "headlines": "document",
    "passages": "context",
    "biographies": "text",
    "statements": "passage",
}


def texts_of(corpus: str, count: int = 400) -> list[str]:
    texts = dict.fromkeys(str(row[CORPORA[corpus]]) for row in read_rows(BUILTIN.get(corpus)))
    return list(texts)[:count]


@pytest.mark.parametrize("corpus", CORPORA)
def test_planted_overlap_is_found_and_nothing_below_the_threshold_is_named(corpus: str) -> None:
    results = plant_and_search(texts_of(corpus), rows=12)
    assert len(results) == len(SAME_WORDS) + len(OTHER_WORDS) + len(SHORT_ROWS) >= 10
    for edit, result in results.items():
        assert result.pairs >= 9, edit
        assert result.found == result.pairs, edit
        assert result.named_below == 0, edit


def test_no_near_pair_of_datasketch_is_missed() -> None:
    datasketch = pytest.importorskip("datasketch", reason="the package datasketch is not installed")
    texts = texts_of("python-docs", 2000)
    items, train = texts[::4], [text for i, text in enumerate(texts) if i % 4]
    index = datasketch.MinHashLSH(threshold=0.4, num_perm=64)
    sketches = datasketch.MinHash.bulk(
        [[pair.encode() for pair in _word_pairs(text)] for text in texts], num_perm=64
    )
    for row, sketch in enumerate(each for i, each in enumerate(sketches) if i % 4):
        index.insert(row, sketch)
    found = {each.item: each for each in find_overlaps(train, {"test": items})["test"]}
    near = 0
    for item, sketch in enumerate(sketches[::4]):
        similar = [reference_similarity(items[item], train[row]) for row in index.query(sketch)]
        if max(similar, default=0.0) >= 0.8:
            near += 1
            assert found[item].similarity >= max(similar)
    assert near >= 20
    assert len(found) >= near


def _word_pairs(text: str) -> list[str]:
    words = ["", *normalise(text).split(), ""]
    return [" ".join(words[i : i + 2]) for i in range(len(words) - 1)]
