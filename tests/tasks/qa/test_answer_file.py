import os
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.corpus import Data
from regard.data.record_corpus import open_records
from regard.tasks.qa.answer_file import PairFile

texts = st.text(min_size=1, max_size=20).filter(
    lambda text: bool("".join(text.split("\0")).split())
)


@pytest.mark.parametrize("name", ["kept.tsv", "kept.csv"])
def test_pairs_come_back_as_a_corpus(tmp_path: Path, name: str) -> None:
    pairs = PairFile(tmp_path / name, "asked", "told")
    pairs.check()
    pairs.keep("Where was Ada, the painter, born?", ' "New"\tTown\n')
    pairs.check()
    pairs.keep("Where was Bo born?", "Oslo")
    lines = (tmp_path / name).read_text().splitlines()
    assert lines[0].replace(",", "\t") == "asked\ttold"
    data = Data(corpus=str(tmp_path / name), dev=0.4, test=0.4)
    records = open_records(data, {"question": "asked", "answer": "told"}).all_records()
    assert [dict(record) for record in records] == [
        {"question": "Where was Ada, the painter, born?", "answer": '"New" Town'},
        {"question": "Where was Bo born?", "answer": "Oslo"},
    ]


def test_a_file_without_a_header_stays_without_and_its_last_line_whole(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("Where was Ada born?\tOslo")
    PairFile(file, "1", "2").keep("Where was Bo born?", "Rome")
    assert file.read_text() == "Where was Ada born?\tOslo\nWhere was Bo born?\tRome\n"
    PairFile(tmp_path / "new.tsv", "2", "1").keep("Who?", "Bo")
    assert (tmp_path / "new.tsv").read_text() == "Bo\tWho?\n"


def test_further_columns_stay_empty(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("id,answer,question\n1,Oslo,Where?\n")
    PairFile(file, "question", "answer").keep("Who, then?", "Bo")
    assert file.read_text().splitlines()[-1] == ',Bo,"Who, then?"'


def test_files_that_cannot_take_a_pair_are_refused_before_anything_is_typed(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("questions,answer\nWho?,Bo\n")
    cases = {
        "kept.json": "pairs are kept in CSV or TSV",
        "gone/kept.tsv": "its folder does not exist",
        "other.csv": "there is no column 'question' — did you mean questions?",
    }
    for name, said in cases.items():
        with pytest.raises(UserError) as caught:
            PairFile(tmp_path / name, "question", "answer").check()
        assert said in str(caught.value)
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        PairFile(tmp_path / "folder.tsv", "question", "answer").check()


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "kept.tsv"
    pairs = PairFile(file, "question", "answer")
    pairs.keep("Who?", "Bo")
    before = file.read_bytes()
    whole = os.write
    calls = []

    def half(handle: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return whole(handle, data[:3])

    with mock.patch("os.write", half), pytest.raises(OSError, match="No space"):
        pairs.keep("Where?", "Oslo")
    assert file.read_bytes() == before


@given(texts, texts)
def test_whatever_is_typed_is_one_row(question: str, answer: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kept.tsv"
        PairFile(file, "question", "answer").keep(question, answer)
        lines = file.read_text(encoding="utf-8").split("\n")
    assert len(lines) == 3
    assert lines[1].split("\t") == [" ".join(question.split()), " ".join(answer.split())]
