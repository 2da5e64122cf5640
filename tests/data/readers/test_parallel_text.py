"""Parallel files: one record a line, and never one file cut to the length of another."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import UserError
from regard.data.corpus import Data, open_corpus
from regard.data.record_corpus import RecordCorpus, open_records

COLUMNS = {"source": "en", "target": "de"}


def put(folder: Path, **texts: list[str]) -> str:
    for name, these in texts.items():
        content = "".join(f"{text}\n" for text in these).encode()
        (folder / f"a.{name}.gz").write_bytes(gzip.compress(content))
    return str(folder / f"a.{{{','.join(texts)}}}.gz")


def opened(name: str, columns: dict[str, str] = COLUMNS, **settings: Any) -> RecordCorpus:
    return open_records(Data(corpus=name, **settings), columns, holds={"target": "text"})


def complaint(name: str, columns: dict[str, str] = COLUMNS, **settings: Any) -> str:
    with pytest.raises(UserError) as caught:
        opened(name, columns, **settings).all_records()
    return str(caught.value)


def test_a_line_is_a_record(tmp_path: Path) -> None:
    name = put(tmp_path, en=["one", "two", "three"], de=["eins", " ", "drei"])
    corpus = opened(name)
    assert corpus.all_records() == [
        {"source": "one", "target": "eins"},
        {"source": "three", "target": "drei"},
    ]
    assert corpus.all_records()[1].at == f"{name}, line 3"
    assert corpus.dropped.as_dict()["empty"] == 1
    assert [Path(identity.name).name for _, identity in corpus.identities()] == [
        "a.en.gz",
        "a.de.gz",
    ]
    texts = open_corpus(Data(corpus=name, text="en"))
    assert [text for _, text in texts.texts_with_split()] == ["one", "two", "three"]


def test_different_numbers_of_lines_are_refused_even_behind_a_limit(tmp_path: Path) -> None:
    name = put(tmp_path, en=["one", "two", "three"], de=["eins", "zwei"])
    told = "different numbers of lines: a.en.gz has 3, a.de.gz has 2"
    assert told in complaint(name)
    assert told in complaint(name, limit=1)
    assert told in complaint(name, {"source": "en", "target": "en"})


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    assert len(opened(str(tmp_path / "a.{en,de}")).all_records()) == 2


def test_what_cannot_be_parallel_is_said(tmp_path: Path) -> None:
    name = put(tmp_path, en=["one"], de=["eins"])
    assert "no column 'fr'; there are 'en', 'de'" in complaint(name, {"text": "fr"})
    assert "there is no file" in complaint(name.replace("de", "fr"))
    assert "do not name the columns" in complaint(name.replace("de", "en"))
    assert "do not name the columns" in complaint(name.replace("a.", "{a,b}."))
    assert 'Set data.unit = "line"' in complaint(name, unit="paragraph")
    (tmp_path / "en.csv").write_text("a\n")
    (tmp_path / "de.csv").write_text("a\n")
    assert "en.csv is a table" in complaint(str(tmp_path / "{en,de}.csv"))


def test_the_same_file_cannot_train_and_judge(tmp_path: Path) -> None:
    name = put(tmp_path, en=["one"], de=["eins"])
    assert "both as data.corpus and as data.test" in complaint(name, test=str(tmp_path / "a.de.gz"))
