"""Values carry their line and column; syntax errors are located."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.lessons.located_values import read_located

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@given(value=values, indent=st.sampled_from([None, 0, 2]))
def test_json_values_equal_those_of_the_json_module(tmp_path_factory, value, indent):
    file = write(tmp_path_factory.mktemp("json"), "a.json", json.dumps(value, indent=indent))
    assert read_located(file).plain() == value


def test_every_value_knows_its_place(tmp_path):
    text = '{\n  "q": [1,\n    "two"],\n  "deep": {"x": null}\n}\n'
    found = read_located(write(tmp_path, "a.json", text))
    numbers = found.value["q"]
    assert (numbers.line, numbers.column) == (2, 8)
    assert [(one.line, one.column) for one in numbers.value] == [(2, 9), (3, 5)]
    assert f"{found.file}, line 4, column 17: odd" in str(
        found.value["deep"].value["x"].error("odd")
    )


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ('{"q": [1, 2}', "line 1, column 12"),
        ('{\n "q": [1, 2],\n}', "line 3, column 1"),
        ("", "line 1, column 1"),
    ],
)
def test_json_syntax_errors_are_located(tmp_path, text, location):
    file = write(tmp_path, "a.json", text)
    with pytest.raises(UserError) as error:
        read_located(file)
    assert f"exercise: {file}, {location}: " in str(error.value)


def test_csv_is_parsed_into_rows_of_numbers_and_words(tmp_path):
    found = read_located(write(tmp_path, "a.csv", "1, 2.5\n\nth,e\n"))
    assert found.plain() == [[1, 2.5], ["th", "e"]]
    assert [(cell.line, cell.column) for row in found.value for cell in row.value] == [
        *((1, 1), (1, 2)),
        *((3, 1), (3, 2)),
    ]


def test_csv_syntax_errors_name_the_line(tmp_path):
    with pytest.raises(UserError, match=r"a\.csv, line 2"):
        read_located(write(tmp_path, "a.csv", '1,2\n"3,4\n'))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"1", "is neither .json nor .csv"),
        ("a.json", b"\xff\xfe1", "is not text in UTF-8"),
        ("a.json", b"[" * 100 + b"]" * 100, "is nested too deeply"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
    ],
)
def test_unreadable_files_are_refused(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_located(file)


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no.json: is not there"):
        read_located(tmp_path / "no.json")
