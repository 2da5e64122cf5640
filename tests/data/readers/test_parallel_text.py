"""Parallel files: one record per line; files of different lengths are refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import UserError
from regard.data.corpus import Corpus, Data, open_corpus

COLUMNS = {"source": "en", "target": "de"}


def write_files(folder: Path, **texts: list[str]) -> str:
    for name, lines in texts.items():
        content = "".join(f"{line}\n" for line in lines).encode()
        (folder / f"a.{name}.gz").write_bytes(gzip.compress(content))
    return str(folder / f"a.{{{','.join(texts)}}}.gz")


def open_parallel(name: str, columns: dict[str, str] = COLUMNS, **settings: Any) -> Corpus:
    return open_corpus(Data(corpus=name, **settings), columns, types={"target": "text"})


def error_message(name: str, columns: dict[str, str] = COLUMNS, **settings: Any) -> str:
    with pytest.raises(UserError) as caught:
        open_parallel(name, columns, **settings).all_records()
    return str(caught.value)


def test_each_line_is_a_record(tmp_path: Path) -> None:
    name = write_files(tmp_path, en=["one", "two", "three"], de=["eins", " ", "drei"])
    corpus = open_parallel(name)
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


def test_different_numbers_of_lines_are_refused_even_beyond_the_limit(tmp_path: Path) -> None:
    name = write_files(tmp_path, en=["one", "two", "three"], de=["eins", "zwei"])
    message = "different numbers of lines: a.en.gz has 3, a.de.gz has 2"
    assert message in error_message(name)
    assert message in error_message(name, limit=1)
    assert message in error_message(name, {"source": "en", "target": "en"})


def test_last_line_without_newline(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    assert len(open_parallel(str(tmp_path / "a.{en,de}")).all_records()) == 2


def test_invalid_parallel_names(tmp_path: Path) -> None:
    name = write_files(tmp_path, en=["one"], de=["eins"])
    assert "no column 'fr'; there are 'en', 'de'" in error_message(name, {"text": "fr"})
    assert "there is no file" in error_message(name.replace("de", "fr"))
    assert "do not name the columns" in error_message(name.replace("de", "en"))
    assert "do not name the columns" in error_message(name.replace("a.", "{a,b}."))
    assert 'Set data.unit = "line"' in error_message(name, unit="paragraph")
    (tmp_path / "en.csv").write_text("a\n")
    (tmp_path / "de.csv").write_text("a\n")
    assert "en.csv is a table" in error_message(str(tmp_path / "{en,de}.csv"))


def test_same_file_for_train_and_test_is_refused(tmp_path: Path) -> None:
    name = write_files(tmp_path, en=["one"], de=["eins"])
    assert "both as data.corpus and as data.test" in error_message(
        name, test=str(tmp_path / "a.de.gz")
    )
