"""The five corpora that overlap is planted in, from a folder of public data sets."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path


def read_corpora(folder: Path) -> dict[str, list[str]]:
    return {name: read(folder / file) for name, (file, read) in CORPORA.items()}


def lines(file: Path) -> list[str]:
    return [line for line in _unpacked(file).splitlines() if line.strip()]


def first_column(file: Path) -> list[str]:
    return [line.split("\t")[0] for line in lines(file)]


def abstracts(file: Path) -> list[str]:
    return [" ".join(json.loads(line)["source"]) for line in lines(file)]


def _unpacked(file: Path) -> str:
    return lzma.decompress(file.read_bytes()).decode("utf-8")


CORPORA: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "AG News": ("ag-news-10k/dev.tsv.xz", first_column),
    "IMDB": ("imdb-5k/imdb_5k.tsv.xz", first_column),
    "One Billion Words": ("one-billion-words-slice/1b_benchmark.dev.tokens.xz", lines),
    "WikiText-2": ("wikitext2/wiki.test.tokens.xz", lines),
    "SciTLDR": ("scitldr/train.jsonl.xz", abstracts),
}
