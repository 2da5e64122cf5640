"""Corpus statistics: exact counts, overlap with train, histogram edges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    measure_overlap,
    ngram_hashes,
)
from regard.data.token_cache import build_cache
from regard.data.tokenizers.whitespace import WhitespaceTokenizer

SENTENCE = "one two three four five six seven eight"


def write_splits(folder: Path, **texts: list[str]) -> Data:
    files = {name: write_lines(folder / f"{name}.txt", *lines) for name, lines in texts.items()}
    return Data(corpus=files["train"], dev=files["dev"], test=files["test"])


def compute_statistics(data: Data, folder: Path) -> CorpusStatistics:
    corpus = open_corpus(data)
    return corpus_statistics(build_cache(corpus, WhitespaceTokenizer(), folder / "cache"), corpus)


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
    assert {"documents", "ngrams", "n"} <= set(table["overlap"]["test"])


def test_overlap_ignores_case_and_spacing_and_counts_ngrams_within_documents(
    tmp_path: Path,
) -> None:
    data = write_splits(
        tmp_path,
        train=[SENTENCE, f"zero {SENTENCE} nine", "short one"],
        dev=[
            SENTENCE.upper().replace(" ", "   "),
            "not there at all, whatever it is, no",
            "Short  one",
        ],
        test=["one two three four", "five six seven eight"],
    )
    overlap = measure_overlap(open_corpus(data).texts)
    assert (overlap["dev"].documents, overlap["dev"].documents_counted) == (pytest.approx(2 / 3), 3)
    assert (overlap["dev"].ngrams, overlap["dev"].ngrams_counted) == (0.5, 2)
    # no 8-gram spans two documents
    assert (overlap["test"].documents, overlap["test"].ngrams_counted) == (0.0, 0)


@given(
    st.lists(st.lists(st.sampled_from("ab"), max_size=6), max_size=5),
    st.lists(st.lists(st.sampled_from("ab"), max_size=6), max_size=5),
    st.integers(1, 4),
)
def test_ngram_hashes_agree_with_the_sets_of_ngrams(
    left: list[list[str]], right: list[list[str]], n: int
) -> None:
    def ngrams(documents: list[list[str]]) -> list[Any]:
        return [tuple(d[i : i + n]) for d in documents for i in range(len(d) - n + 1)]

    def hashed(documents: list[list[str]]) -> list[int]:
        words = np.array([hash(w) for d in documents for w in d], dtype=np.int64)
        counts = np.array([len(d) for d in documents], dtype=np.int64)
        return ngram_hashes(words.view(np.uint64), counts, n=n).tolist()

    hashes = dict(zip(ngrams(left) + ngrams(right), hashed(left) + hashed(right), strict=True))
    assert len(set(hashes.values())) == len(hashes)
    assert hashed(left) == [hashes[gram] for gram in ngrams(left)]


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
    assert "word 8-grams in train" in result
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
