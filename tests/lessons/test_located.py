"""Values know their line and column; broken syntax names its own."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.lessons.located import read_located

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@given(value=values, indent=st.sampled_from([None, 0, 2]))
def test_it_reads_what_python_reads(tmp_path_factory, value, indent):
    file = written(tmp_path_factory.mktemp("json"), "a.json", json.dumps(value, indent=indent))
    assert read_located(file).plain() == value


def test_every_value_knows_its_place(tmp_path):
    text = '{\n  "q": [1,\n    "two"],\n  "deep": {"x": null}\n}\n'
    found = read_located(written(tmp_path, "a.json", text))
    numbers = found.value["q"]
    assert (numbers.line, numbers.column) == (2, 8)
    assert [(one.line, one.column) for one in numbers.value] == [(2, 9), (3, 5)]
    assert found.value["deep"].value["x"].where("f") == "f, line 4, column 17"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"q": [1, 2}', "line 1, column 12"),
        ('{\n "q": [1, 2],\n}', "line 3, column 1"),
        ("", "line 1, column 1"),
    ],
)
def test_broken_json_names_its_place(tmp_path, text, place):
    file = written(tmp_path, "a.json", text)
    with pytest.raises(UserError) as problem:
        read_located(file)
    assert f"exercise: {file}, {place}: " in str(problem.value)


def test_csv_is_rows_of_numbers_and_words(tmp_path):
    found = read_located(written(tmp_path, "a.csv", "1, 2.5\n\nth,e\n"))
    assert found.plain() == [[1, 2.5], ["th", "e"]]
    assert [(cell.line, cell.column) for row in found.value for cell in row.value] == [
        *((1, 1), (1, 2)),
        *((3, 1), (3, 2)),
    ]


def test_broken_csv_names_its_line(tmp_path):
    with pytest.raises(UserError, match=r"a\.csv, line 2"):
        read_located(written(tmp_path, "a.csv", '1,2\n"3,4\n'))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"1", "is neither .json nor .csv"),
        ("a.json", b"\xff\xfe1", "is not text in UTF-8"),
        ("a.json", b"[" * 100 + b"]" * 100, "is nested too deeply"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_answer_at_all(tmp_path, name, content, said):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(UserError, match=said):
        read_located(file)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"no.json: is not there"):
        read_located(tmp_path / "no.json")
