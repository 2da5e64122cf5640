"""Files of words with tags."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.readers.formats import DropCounts, ReadOptions, read_records

EVERY_COLUMN = ReadOptions(columns=None)


def read(path: Path, content: str, options: ReadOptions = EVERY_COLUMN) -> list[dict[str, object]]:
    path.write_text(content, encoding="utf-8")
    return list(read_records(path, options, DropCounts()))


def test_sentences_with_their_columns(tmp_path: Path) -> None:
    content = "EU NNP B-ORG\nrejects VBZ O\n\n\n# a comment\nPeter NNP B-PER\n"
    assert read(tmp_path / "a.conll", content) == [
        {"tokens": ["EU", "rejects"], "2": ["NNP", "VBZ"], "tags": ["B-ORG", "O"]},
        {"tokens": ["Peter"], "2": ["NNP"], "tags": ["B-PER"]},
    ]


def test_documents_are_groups(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- O\n\na X O\n\nb X O\n\n-DOCSTART- -X- O\nc X O\n"
    path = tmp_path / "a.conll"
    path.write_text(content, encoding="utf-8")
    records = list(read_records(path, EVERY_COLUMN, DropCounts()))
    assert [record["tokens"] for record in records] == [["a"], ["b"], ["c"]]
    groups = [record.group for record in records]
    assert groups[0] == groups[1] != groups[2]


def test_words_alone_have_no_tags(tmp_path: Path) -> None:
    assert read(tmp_path / "a.bio", "a\nb\n\nc\n") == [{"tokens": ["a", "b"]}, {"tokens": ["c"]}]


def test_a_line_that_lacks_a_column_is_an_error_or_dropped(tmp_path: Path) -> None:
    content = "a O\nb\n\nc O\n"
    with pytest.raises(UserError, match=r"a\.conll, line 1: .*1 to 2 columns"):
        read(tmp_path / "a.conll", content)
    skip = ReadOptions(columns=None, skip_bad_rows=True)
    assert read(tmp_path / "a.conll", content, skip) == [{"tokens": ["c"], "tags": ["O"]}]


WORD = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=5).filter(
    lambda word: word not in ("#", "-DOCSTART-")
)


@given(st.lists(st.lists(st.tuples(WORD, WORD), min_size=1, max_size=5), min_size=1, max_size=5))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[tuple[str, str]]]
) -> None:
    content = "\n".join("".join(f"{a}\t{b}\n" for a, b in words) for words in sentences)
    assert read(tmp_path_factory.mktemp("conll") / "a.conll", content) == [
        {"tokens": [a for a, _ in words], "tags": [b for _, b in words]} for words in sentences
    ]
