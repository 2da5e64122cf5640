"""Answers as sheets, bare JSON and CSV; errors name line and column."""

import csv
import io
import json
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.lessons.exercise import build_sheet, sheet_dict
from regard.lessons.marking import mark_file, mark_folder, marks_csv
from regard.lessons.sheet_json import dump_sheet


def write(folder: Path, name: str, content) -> Path:
    file = folder / name
    text = content if isinstance(content, str) else json.dumps(content)
    file.write_text(text, encoding="utf-8")
    return file


def correct_query(seed: int) -> list[float]:
    keys = build_sheet("copying", seed).given["keys"]
    return (60 * keys[seed % 4]).tolist()


def test_filled_sheet_states_its_seed(tmp_path):
    sheet = sheet_dict("copying", 7)
    sheet["answer"]["q"] = correct_query(7)
    marked = mark_file("copying", write(tmp_path, "a.json", dump_sheet(sheet)))
    assert (marked.seed, marked.mark.passed) == (7, True)
    assert marked.mark.attention_map.values.shape == (1, 4)


def test_given_numbers_in_a_sheet_are_not_trusted(tmp_path):
    sheet = sheet_dict("copying", 7)
    sheet["given"]["values"] = [[0, 0, 0]] * 4
    sheet["answer"]["q"] = [0, 0, 0]
    assert not mark_file("copying", write(tmp_path, "a.json", sheet)).mark.passed


@pytest.mark.parametrize("form", ["list", "named", "row.csv", "column.csv"])
def test_bare_answers_need_a_seed(tmp_path, form):
    q = correct_query(3)
    content = {
        "list": q,
        "named": {"q": q},
        "row.csv": ",".join(map(str, q)),
        "column.csv": "\n".join(map(str, q)),
    }[form]
    file = write(tmp_path, form if form.endswith("csv") else "a.json", content)
    assert mark_file("copying", file, seed=3).mark.passed
    with pytest.raises(UserError, match="Add --new SEED"):
        mark_file("copying", file)


def test_flags_may_be_numbers_words_or_booleans(tmp_path):
    n = build_sheet("three-masks", 2).slots[0].shape[0]
    rows = [[int(j <= i) for j in range(n)] for i in range(n)]
    as_csv = "\n".join(",".join(map(str, row)) for row in rows)
    assert mark_file("three-masks", write(tmp_path, "a.csv", as_csv), seed=2).mark.passed
    words = as_csv.replace("1", "true").replace("0", "false")
    assert mark_file("three-masks", write(tmp_path, "b.csv", words), seed=2).mark.passed
    flags = [[bool(cell) for cell in row] for row in rows]
    assert mark_file("three-masks", write(tmp_path, "c.json", flags), seed=2).mark.passed


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"q": [1, 2,\n "x"]}', "line 2, column 2: 'x' is not a number"),
        ("a.json", '{"q": [1, NaN, 2]}', "line 1, column 11: nan is not a number"),
        ("a.json", '{"q": [1, 1e999, 2]}', "line 1, column 11: inf is not a number"),
        ("a.json", f'{{"q": [1, {10**400}, 2]}}', "is not a number"),
        ("a.json", '{"q": [1, true, 2]}', "line 1, column 11: True is not a number"),
        ("a.json", '{"q": [1, [2], 2]}', "line 1, column 11: a list is not a number"),
        ("a.json", '{"q": 5}', "line 1, column 7: q needs a list here, and this is 5"),
        ("a.json", '{"q": [1, 2]}', "line 1, column 7: q has 2 where 3 are needed. Give 3 numbers"),
        ("a.json", '{"p": [1, 2, 3]}', "line 1, column 7: 'p' is not an answer of this exercise"),
        ("a.json", "{}", "line 1, column 1: q is missing. Give 3 numbers"),
        ("a.json", '{"answer": {"q": null}}', "line 1, column 18: q is missing"),
        ("a.json", '{"q": [1, 2, 3', "line 1, column 15: expecting"),
        ("a.json", '{"exercise": "scaling", "q": [1, 2, 3]}', "this is an answer to 'scaling'"),
        ("a.json", '{"seed": 4, "q": [1, 2, 3]}', "the sheet has seed 4, and --new says 3"),
        ("a.json", '{"seed": "x", "q": [1, 2, 3]}', "column 10: the seed must be a whole number"),
        ("a.csv", "1,2,x", "line 1, column 3: 'x' is not a number"),
        ("a.csv", "1,2\n3,4", "line 1, column 1: q has 2 where 3 are needed"),
        ("a.csv", "1;2;x", "line 1, column 3: 'x' is not a number"),
        ("a.csv", "q\n", "line 1, column 1: q is missing. Give 3 numbers"),
        ("a.csv", "q\n1,2,3\nq\n", "line 3, column 1: 'q' is given twice"),
        ("a.csv", "q,1,2,x", "line 1, column 4: 'x' is not a number"),
        ("a.json", '{"q": [1], "q": [1, 2, 3]}', "column 17: 'q' is given twice"),
    ],
)
def test_errors_name_line_and_column(tmp_path, name, content, message):
    file = write(tmp_path, name, content)
    with pytest.raises(UserError) as error:
        mark_file("copying", file, seed=3)
    assert str(file) in str(error.value)
    assert message in str(error.value)


def test_several_answers_need_names(tmp_path):
    file = write(tmp_path, "a.csv", "1,2,3,4")
    with pytest.raises(UserError, match=r'3 answers: Q, K, V\..*\{"Q"'):
        mark_file("self-attention-by-hand", file, seed=0)


def test_folder_is_marked_despite_unreadable_files(tmp_path):
    write(tmp_path, "ann.json", {"seed": 1, "q": correct_query(1)})
    write(tmp_path, "bob.json", {"seed": 2, "q": [0, 0, 0]})
    write(tmp_path, "=cmd.json", '{"q": [1, 2')
    write(tmp_path, "notes.txt", "not an answer")
    marked = mark_folder("copying", tmp_path)
    rows = list(csv.DictReader(io.StringIO(marks_csv(marked))))
    assert [row["file"] for row in rows] == ["'=cmd.json", "ann.json", "bob.json"]
    assert [row["passed"] for row in rows] == ["no", "yes", "no"]
    assert "line 1, column" in rows[0]["feedback"]
    assert float(rows[2]["distance"]) > float(rows[2]["tolerance"])


def test_marks_file_in_the_folder_is_not_an_answer(tmp_path):
    write(tmp_path, "ann.json", {"seed": 1, "q": correct_query(1)})
    marks = write(tmp_path, "marks.csv", "file,exercise,seed\n")
    assert [answer.file.name for answer in mark_folder("copying", tmp_path, marks=marks)] == [
        "ann.json"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "head,{head}\nprompt,{prompt}\nprefix,{prefix}\nlora,{lora}\n",
        "lora\n{lora}\nprefix,\n{prefix},\nprompt\n{prompt}\n\nhead,,\n{head},,\n",
    ],
)
def test_csv_may_contain_several_named_answers(tmp_path, text):
    size = build_sheet("adapter-counts", 1).given
    d, layers, length = size["width"], size["layers"], size["length"]
    head = size["labels"] * (d + 1)
    correct = {
        "head": head,
        "prompt": length * d + head,
        "prefix": 2 * length * layers * d + head,
        "lora": 4 * layers * size["rank"] * d + head,
    }
    file = write(tmp_path, "a.csv", text.format(**correct))
    assert mark_file("adapter-counts", file, seed=1).mark.passed
    wrong = write(tmp_path, "b.csv", text.format(**{**correct, "lora": 1}))
    assert "lora 1 is too few" in mark_file("adapter-counts", wrong, seed=1).mark.feedback


def test_merges_and_matrices_may_be_csv(tmp_path):
    merges = "bpe\na,b\nb,c\nc,d\nwordpiece\na,##b\n##b,##c\n##c,##d\n"
    feedback = mark_file("three-tokenizers", write(tmp_path, "a.csv", merges), seed=0).mark.feedback
    assert "bpe: " in feedback
    eye = "\n".join(",".join(str(int(i == j)) for j in range(4)) for i in range(4))
    matrices = "".join(f"{name}\n{eye}\n" for name in "QKV")
    marked = mark_file("self-attention-by-hand", write(tmp_path, "b.csv", matrices), seed=0)
    assert not marked.mark.passed
    assert marked.mark.attention_map.values.shape == (3, 3)


def test_empty_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"contains no \.json and no \.csv file"):
        mark_folder("copying", tmp_path)
