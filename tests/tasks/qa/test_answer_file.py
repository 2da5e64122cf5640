import os
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.corpus import Data, open_corpus
from regard.tasks.qa.answer_file import PairFile

texts = st.text(min_size=1, max_size=20).filter(
    lambda text: bool("".join(text.split("\0")).split())
)


@pytest.mark.parametrize("name", ["kept.tsv", "kept.csv"])
def test_appended_pairs_are_readable_as_a_corpus(tmp_path: Path, name: str) -> None:
    pairs = PairFile(tmp_path / name, "q", "a")
    pairs.check()
    pairs.append("Where was Ada, the painter, born?", ' "New"\tTown\n')
    pairs.check()
    pairs.append("Where was Bo born?", "Oslo")
    lines = (tmp_path / name).read_text().splitlines()
    assert lines[0].replace(",", "\t") == "q\ta"
    data = Data(corpus=str(tmp_path / name), dev=0.4, test=0.4)
    records = open_corpus(data, {"question": "q", "answer": "a"}).all_records()
    assert [dict(record) for record in records] == [
        {"question": "Where was Ada, the painter, born?", "answer": '"New" Town'},
        {"question": "Where was Bo born?", "answer": "Oslo"},
    ]


def test_append_to_a_file_without_header_or_final_newline(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("Where was Ada born?\tOslo")
    PairFile(file, "1", "2").append("Where was Bo born?", "Rome")
    first, second = file.read_text().splitlines()
    assert (first, second) == ("Where was Ada born?\tOslo", "Where was Bo born?\tRome")
    PairFile(tmp_path / "new.tsv", "2", "1").append("Who?", "Bo")
    assert (tmp_path / "new.tsv").read_text() == "Bo\tWho?\n"


def test_other_columns_stay_empty(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("id,answer,question\n1,Oslo,Where?\n")
    PairFile(file, "question", "answer").append("Who, then?", "Bo")
    assert file.read_text().splitlines()[-1] == ',Bo,"Who, then?"'


def test_check_refuses_unusable_files(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("questions,answer\nWho?,Bo\n")
    cases = {
        "kept.json": "pairs are kept in CSV or TSV",
        "gone/kept.tsv": "its folder does not exist",
        "other.csv": "there is no column 'question' — did you mean questions?",
    }
    for name, message in cases.items():
        with pytest.raises(UserError) as caught:
            PairFile(tmp_path / name, "question", "answer").check()
        assert message in str(caught.value)
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        PairFile(tmp_path / "folder.tsv", "question", "answer").check()


def test_a_failed_write_leaves_the_file_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "kept.tsv"
    pairs = PairFile(file, "question", "answer")
    pairs.append("Who?", "Bo")
    before = file.read_bytes()
    real_write = os.write
    calls = []

    def partial_write(handle: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real_write(handle, data[:3])

    with mock.patch("os.write", partial_write), pytest.raises(OSError, match="No space"):
        pairs.append("Where?", "Oslo")
    assert file.read_bytes() == before


@given(texts, texts)
def test_any_text_is_one_row(question: str, answer: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kept.tsv"
        PairFile(file, "question", "answer").append(question, answer)
        lines = file.read_text(encoding="utf-8").split("\n")
    assert len(lines) == 3
    assert lines[1].split("\t") == [" ".join(question.split()), " ".join(answer.split())]
