"""Corpus statistics: exact counts, overlap with train, histogram edges."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.text_files import write_lines
from typer.testing import CliRunner

from regard.cli.data.corpus import app
from regard.core.errors import UserError
from regard.data.corpus import Data, open_corpus
from regard.data.corpus_stats import (
    CorpusStatistics,
    corpus_statistics,
    histogram_edges,
)
from regard.data.statistics import SplitOverlap
from regard.data.token_cache.building import build_cache
from regard.data.tokenizers.whitespace import WhitespaceTokenizer


def write_splits(folder: Path, **texts: list[str]) -> Data:
    files = {name: write_lines(folder / f"{name}.txt", *lines) for name, lines in texts.items()}
    return Data(corpus=files["train"], dev=files["dev"], test=files["test"])


def compute_statistics(data: Data, folder: Path) -> CorpusStatistics:
    cache = build_cache(open_corpus(data), WhitespaceTokenizer(), folder / "cache")
    return corpus_statistics(cache, {"dev": SplitOverlap(1), "test": SplitOverlap(1)})


def test_counts(tmp_path: Path) -> None:
    data = write_splits(
        tmp_path, train=["a b c", "", "a b", "ä"], dev=["b b b b"], test=["c", "d e f"]
    )
    statistics = compute_statistics(data, tmp_path)
    train = statistics.splits["train"]
    assert (train.documents, train.tokens, train.bytes, train.unique_tokens) == (3, 6, 10, 4)
    assert (train.mean_length, train.median_length, train.max_length) == (2.0, 2.0, 3)
    assert statistics.splits["dev"].unique_tokens == 1
    assert train.histogram.edges == [1, 2, 3, 4, 5]
    assert train.histogram.counts == [1, 1, 1, 0]
    assert statistics.splits["dev"].histogram.counts == [0, 0, 0, 1]
    assert statistics.dropped["empty"] == 1
    assert statistics.name == str(tmp_path / "train.txt")


def test_keys_of_the_statistics(tmp_path: Path) -> None:
    data = write_splits(tmp_path, train=["a"], dev=["b"], test=["c"])
    table = compute_statistics(data, tmp_path).as_dict()
    assert json.loads(json.dumps(table)) == table
    assert set(table) == {"name", "generated", "splits", "overlap", "dropped"}
    assert set(table["splits"]) == {"train", "dev", "test"}
    assert {"documents", "tokens", "bytes", "unique_tokens", "unknown_rate", "fingerprint"} <= set(
        table["splits"]["dev"]
    )
    assert {"mean_length", "median_length", "max_length", "histogram"} <= set(
        table["splits"]["dev"]
    )
    assert {"items", "exact", "near"} <= set(table["overlap"]["test"])


@given(st.lists(st.integers(1, 10**7), min_size=1))
def test_edges_cover_every_length(lengths: list[int]) -> None:
    edges = histogram_edges(np.array(lengths))
    assert edges == sorted(set(edges))
    assert edges[0] <= min(lengths)
    assert max(lengths) < edges[-1]
    assert len(edges) <= 60
    assert np.histogram(lengths, edges)[0].sum() == len(lengths)


def test_long_tail_gets_widening_bins() -> None:
    assert set(np.diff(histogram_edges(np.arange(100, 400)))) == {20}
    tail = np.diff(histogram_edges(np.array([5] * 99 + [5000])))
    assert tail[-1] > 100 * tail[0]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["stats", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_command_prints_a_table_and_a_histogram(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(
        "body\tlabel\n" + "".join(f"{'word ' * (i % 7 + 1)}{i}\t1\n" for i in range(99))
    )
    result = run(str(path), "--text", "body")
    assert "words, no tokenizer given" in result
    assert "in train word for word" in result
    assert "█" in result


def test_command_prints_json_even_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("only this\n")
    statistics = json.loads(run(str(path), "--json"))
    assert statistics["counted_in"] == "words"
    assert sum(split["documents"] for split in statistics["splits"].values()) == 1


def test_command_raises_settings_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data.dev: 0.9 is not a valid fraction"):
        run("python-docs", "--dev", "0.9")
