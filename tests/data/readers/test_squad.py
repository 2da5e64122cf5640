"""SQuAD's layout: one record per question, and the error of each invalid file."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import UserError
from regard.data.readers.formats import read_records
from regard.data.readers.records import Column, DropCounts, ReadOptions, Record
from regard.data.readers.squad import COLUMNS

ALL_COLUMNS = ReadOptions(columns=None)


def document(*questions: dict[str, Any]) -> dict[str, Any]:
    paragraphs = [{"context": "Rollo led them.", "qas": list(questions)}]
    return {"version": "v2.0", "data": [{"title": "Normans", "paragraphs": paragraphs}]}


ANSWERED = {
    "question": "Who led them?",
    "id": "q1",
    "answers": [{"text": "Rollo", "answer_start": 0}],
    "is_impossible": False,
}
UNANSWERED = {"question": "Who else?", "id": "q2", "answers": [], "is_impossible": True}


def read(
    path: Path, options: ReadOptions = ALL_COLUMNS, dropped: DropCounts | None = None
) -> list[Record]:
    return list(read_records(path, options, dropped or DropCounts()))


@pytest.mark.parametrize("indent", [None, 2])
def test_each_question_is_a_record(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "a.json.xz"
    text = json.dumps(document(ANSWERED, UNANSWERED), indent=indent)
    path.write_bytes(lzma.compress(text.encode()))
    first, second = read(path)
    assert tuple(first) == (
        "title",
        "context",
        "question",
        "answers",
        "answer_starts",
        "id",
        "impossible",
    )
    assert set(first) == set(COLUMNS)
    assert (first["title"], first["context"]) == ("Normans", "Rollo led them.")
    assert (first["answers"], first["answer_starts"], first["impossible"]) == (
        ["Rollo"],
        [0],
        False,
    )
    assert (second["answers"], second["answer_starts"], second["impossible"]) == ([], [], True)
    assert second.at == f"{path}, article 1, paragraph 1, question 2"
    options = ReadOptions(columns={"text": Column("question", "task.text")})
    assert read(path, options) == [{"text": "Who led them?"}, {"text": "Who else?"}]


def test_files_without_is_impossible_are_answerable(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    question = {key: ANSWERED[key] for key in ("question", "id", "answers")}
    path.write_text(json.dumps(document(question)))
    assert [record["impossible"] for record in read(path)] == [False]


INVALID = [
    ({**ANSWERED, "answers": []}, "question 2: no answer, yet not is_impossible"),
    ({**ANSWERED, "question": 3}, "question 2: 'question' holds a number"),
    ({**ANSWERED, "answers": [{"text": "Rollo"}]}, "question 2: no 'answer_start'"),
    ({**ANSWERED, "answers": ["Rollo"]}, "question 2: a JSON string where an object"),
    ("Who?", "question 2: a JSON string where an object is needed"),
]


@pytest.mark.parametrize(("question", "message"), INVALID)
def test_invalid_question_is_an_error_or_dropped(
    tmp_path: Path, question: Any, message: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document(ANSWERED, question, UNANSWERED)))
    with pytest.raises(UserError) as caught:
        read(path)
    assert f"{path}, article 1, paragraph 1, {message}" in str(caught.value)
    dropped = DropCounts()
    kept = read(path, ReadOptions(columns=None, skip_bad_rows=True), dropped)
    assert [record["id"] for record in kept] == ["q1", "q2"]
    assert dropped.as_dict()["bad"] == 1


def test_invalid_paragraphs_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"data": [{"title": "a", "paragraphs": [{"qas": []}]}]}))
    with pytest.raises(UserError, match="article 1, paragraph 1: no 'context'"):
        read(path)
    path.write_text(json.dumps(document(ANSWERED)))
    with pytest.raises(UserError, match=r"no column 'contexts'.*did you mean 'context'"):
        read(path, ReadOptions(columns={"text": Column("contexts")}))


def test_other_json_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"text": "a", "data": [1]}\n{"text": "b"}\n')
    assert [record["text"] for record in read(path)] == ["a", "b"]
    path.write_text('{\n "text": "a"\n}\n')
    with pytest.raises(UserError, match="line 1: not valid JSON"):
        read(path)
    path.write_text(json.dumps(document(ANSWERED))[:-9])
    with pytest.raises(UserError, match="line 1: not valid JSON"):
        read(path)
