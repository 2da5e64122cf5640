"""`regard new` on tables as strangers make them: what it writes is right, valid and trains."""

from __future__ import annotations

import csv
import io
import json
import random
import tomllib
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.recognition import tables
from tests.in_process_trainings import in_process_trainings
from tests.journeys.workspace import CommandResult, Workspace, generated_text

from regard.studies.study import LoadedStudy

__all__ = ["in_process_trainings"]

Row = dict[str, Any]
FEW_STEPS = (
    *("--set", "train.epochs=1", "--set", "train.max_steps=3", "--set", "train.threads=1"),
    *("--set", "model.width=16", "--set", "model.layers=1"),
)


def as_csv(
    rows: Sequence[Row], separator: str = ",", *, header: bool = True, end: str = "\n"
) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=end)
    if header:
        writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return out.getvalue()


def proposed(workspace: Workspace, *arguments: str) -> tuple[dict[str, Any], str]:
    """The recipe that `regard new` writes, and what it prints."""
    for file in ("proposed.toml", "proposed-study.toml"):
        (workspace.folder / file).unlink(missing_ok=True)
    printed = workspace.run("new", *arguments, "--out", "proposed.toml")
    return tomllib.loads((workspace.folder / "proposed.toml").read_text("utf-8")), printed


def refused(workspace: Workspace, *arguments: str) -> CommandResult:
    """One sentence, exit code 2, and nothing is written."""
    result = workspace.invoke("new", *arguments, "--out", "refused.toml")
    assert result.exit_code == 2, result.stdout
    assert result.error.startswith(("new: ", "data: ", "--"))
    assert "Traceback" not in result.stderr
    assert not list(workspace.folder.glob("refused*"))
    return result


REVIEWS = tables.reviews()
TASK = {"kind": "classification", "text": "Bewertung", "label": "Urteil"}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_what_spreadsheets_write(workspace: Workspace, separator: str, encoding: str) -> None:
    rows = [{**row, "Bewertung": f"Größe: {row['Bewertung']}"} for row in REVIEWS]
    content = as_csv(rows, separator, end="\r\n") + "\r\n" * 3
    workspace.write("Rückmeldungen 2024.csv", content.encode(encoding))
    recipe, printed = proposed(workspace, "Rückmeldungen 2024.csv")
    assert recipe["task"].items() >= TASK.items()
    assert recipe["data"]["group"] == "Verfasser"
    assert recipe["data"]["corpus"] == "Rückmeldungen 2024.csv"
    word = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "cp1252": "cp1252"}[encoding]
    assert word in printed
    assert "200 rows" in printed
    assert "'Quelle' (constant)" in printed
    assert "'' (row numbers)" in printed


def as_json_lines(rows: Sequence[Row]) -> bytes:
    """The label inside an object, as interfaces deliver it."""
    return b"".join(
        json.dumps(
            {"body": row["Bewertung"], "meta": {"mood": row["Urteil"], "n": number}}
        ).encode()
        + b"\n"
        for number, row in enumerate(rows)
    )


def as_parquet(rows: Sequence[Row]) -> bytes:
    out = io.BytesIO()
    pq.write_table(
        pa.table({key: [row[key] for row in rows] for key in ("Bewertung", "Urteil")}), out
    )
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "write", "text", "label"),
    [
        ("a.jsonl", as_json_lines, "body", "meta.mood"),
        ("a.parquet", as_parquet, "Bewertung", "Urteil"),
    ],
)
def test_other_formats(
    workspace: Workspace, name: str, write: Callable[[Sequence[Row]], bytes], text: str, label: str
) -> None:
    workspace.write(name, write(REVIEWS))
    recipe, _ = proposed(workspace, name)
    assert (recipe["task"]["text"], recipe["task"]["label"]) == (text, label)
    forecast = json.loads(workspace.run("validate", "proposed.toml", *FEW_STEPS, "--json"))
    assert forecast["recipe"]["task"]["label"] == label


def test_two_columns_without_a_header(workspace: Workspace) -> None:
    rows = [{"t": row["Bewertung"], "l": row["Urteil"]} for row in REVIEWS]
    workspace.write("a.csv", as_csv(rows, ";", header=False))
    recipe, printed = proposed(workspace, "a.csv")
    assert recipe["data"]["header"] is False
    assert (recipe["task"]["text"], recipe["task"]["label"]) == ("1", "2")
    assert "no header line" in printed
    recipe, _ = proposed(workspace, "a.csv", "--header")
    assert "header" not in recipe["data"]


def test_one_column_with_a_huge_cell_becomes_a_language_model(workspace: Workspace) -> None:
    rows = [{"comment": row["Bewertung"]} for row in REVIEWS]
    rows[7]["comment"] = "very " * 100_000 + 'long, "quoted"\nand on two lines'
    workspace.write("a.csv", as_csv(rows))
    recipe, _ = proposed(workspace, "a.csv")
    assert "task" not in recipe
    assert recipe["data"]["text"] == "comment"


def test_numeric_labels_are_classes_and_unbalanced_ones_are_judged_by_f1(
    workspace: Workspace,
) -> None:
    rows = [
        {"text": row["Bewertung"], "label": int(row["Urteil"] == "good")}
        for row in tables.reviews(300, good=0.1)
    ]
    workspace.write("a.csv", as_csv(rows))
    recipe, printed = proposed(workspace, "a.csv")
    assert recipe["task"]["kind"] == "classification"
    assert "unbalanced" in printed
    study = LoadedStudy.load(workspace.folder / "proposed-study.toml", seeds=(0,))
    assert study.study.decides == "dev.macro_f1"


def test_decimal_commas_are_numbers(workspace: Workspace) -> None:
    rows = [{**row, "points": str(row["points"]).replace(".", ",")} for row in tables.rated()]
    workspace.write("a.csv", as_csv(rows, ";"))
    recipe, printed = proposed(workspace, "a.csv")
    assert (
        recipe["task"].items() >= {"kind": "regression", "text": "note", "score": "points"}.items()
    )
    assert "'id' (row numbers)" in printed


def test_files_of_splits_that_overlap(workspace: Workspace) -> None:
    rows = [{"text": row["Bewertung"], "label": row["Urteil"]} for row in tables.reviews(300)]
    workspace.write("data/train.csv", as_csv(rows[:200]))
    workspace.write("data/valid.csv", as_csv(rows[180:240]))
    workspace.write("data/test.csv", as_csv([{"text": row["text"]} for row in rows[240:]]))
    workspace.write("data/README.md", "# about\n")
    recipe, printed = proposed(workspace, "data")
    data = recipe["data"]
    assert data["corpus"] == "data/train.csv"
    assert data["dev"] == "data/valid.csv"
    assert data["drop_overlap"] is True
    assert "20 of 60 rows of dev stand in training" in printed
    assert isinstance(data["test"], float)  # the file has no labels
    assert "test.csv is left out, for it lacks 'label'" in printed


def test_a_column_of_splits(workspace: Workspace) -> None:
    rows = [
        {"text": row["Bewertung"], "label": row["Urteil"], "split": split}
        for row, split in zip(
            tables.reviews(300), ["train"] * 200 + ["val"] * 50 + ["test"] * 50, strict=True
        )
    ]
    workspace.write("a.csv", as_csv(rows))
    recipe, _ = proposed(workspace, "a.csv")
    assert recipe["data"]["dev"] == {"split": ["val"]}
    assert recipe["data"]["test"] == {"split": ["test"]}


def test_a_column_of_splits_of_texts(workspace: Workspace) -> None:
    rows = [{"body": row["Bewertung"], "fold": "train"} for row in tables.reviews(300)]
    for row in rows[250:]:
        row["fold"] = "test"
    workspace.write("a.csv", as_csv(rows))
    recipe, printed = proposed(workspace, "a.csv")
    assert recipe["data"]["text"] == "body"
    assert recipe["data"]["test"] == {"fold": ["test"]}
    assert "as 'fold' says, train 250 and test 50 rows" in printed


def test_labels_that_stand_in_names_of_folders_or_lines(workspace: Workspace) -> None:
    for number, row in enumerate(REVIEWS[:60]):
        workspace.write(f"imdb/{row['Urteil']}/{number}.txt", row["Bewertung"])
    assert "if bad and good are labels, write a table" in proposed(workspace, "imdb")[1]
    lines = "".join(f"__label__{row['Urteil']} {row['Bewertung']}\n" for row in REVIEWS)
    workspace.write("fasttext.txt", lines)
    assert "begins each line with __label__" in proposed(workspace, "fasttext.txt")[1]


def test_a_word_in_each_row_is_no_sentence(workspace: Workspace) -> None:
    """The layout of Kaggle's NER data."""
    rows = [
        {"Sentence #": "" if at else f"Sentence: {n}", "Word": word, "Tag": "O" if at else "B-X"}
        for n, row in enumerate(REVIEWS[:50])
        for at, word in enumerate(row["Bewertung"].split())
    ]
    workspace.write("ner.csv", as_csv(rows))
    assert "write a .conll file" in refused(workspace, "ner.csv").error


DOUBTS = {
    "a header in the middle": ("t,l\nt,l\n", "", "1 row of a.csv repeats the header line"),
    "a title above the header": ("Reviews of 2024,\nt,l\n", "", "remove a title above the header"),
    "a word for nothing": ("t,l\n", "a fine film,NaN\n" * 20, "'NaN' counts as a class of 'l'"),
    "another separator": ("t:l\n", "", "this table has one column"),
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_what_looks_like_a_mistake_of_the_file_is_said(workspace: Workspace, doubt: str) -> None:
    above, below, said = DOUBTS[doubt]
    separator = ":" if ":" in above else ","
    rows = "".join(
        f"{row['Bewertung'].replace(',', '')}{separator}{row['Urteil']}\n" for row in REVIEWS
    )
    workspace.write("a.csv", above + rows + below)
    assert said in proposed(workspace, "a.csv")[1]


def test_numbers_of_three_decimals_may_be_thousands(workspace: Workspace) -> None:
    rows = [{"note": row["note"], "points": f"{row['points']:.3f}"} for row in tables.rated()]
    for row in rows:
        row["points"] = row["points"].lstrip("-").replace(".", ",").replace("0,", "1,")
    workspace.write("a.csv", as_csv(rows, ";"))
    assert "write them with a point" in proposed(workspace, "a.csv")[1]


def test_rows_without_a_label_are_left_out_and_counted(workspace: Workspace) -> None:
    rows = [{"t": row["Bewertung"], "l": row["Urteil"]} for row in REVIEWS]
    for row in rows[::9]:
        row["l"] = ""
    workspace.write("a.csv", as_csv(rows))
    recipe, printed = proposed(workspace, "a.csv")
    assert f"{len(rows[::9])} rows without one" in printed
    assert recipe["data"]["skip_bad_rows"] is True
    workspace.run("validate", "proposed.toml", *FEW_STEPS)


def test_a_corpus_is_written_as_a_table(workspace: Workspace) -> None:
    """One in UTF-8 with commas, of whatever a spreadsheet wrote."""
    rows = [{"Größe": row["Bewertung"], "Urteil": row["Urteil"]} for row in REVIEWS]
    workspace.write("odd.csv", (as_csv(rows, ";", end="\r\n")).encode("cp1252"))
    assert "200 rows" in workspace.run("corpus", "write", "odd.csv", "even.csv")
    assert (workspace.folder / "even.csv").read_text("utf-8") == as_csv(rows)
    workspace.run("corpus", "write", "even.csv", "rows.jsonl")
    lines = (workspace.folder / "rows.jsonl").read_text("utf-8").splitlines()
    assert list(map(json.loads, lines)) == rows
    assert "generated" in workspace.run("corpus", "write", "likeness", "likeness.tsv")


def test_fewer_rows_get_larger_splits(workspace: Workspace) -> None:
    """Five per cent of many rows show more than a fifth of few."""
    fractions = []
    for count in (200, 6000, 40_000):
        rows = [{"t": row["Bewertung"], "l": row["Urteil"]} for row in tables.reviews(count)]
        workspace.write("a.csv", as_csv(rows))
        recipe, printed = proposed(workspace, "a.csv")
        assert "show differences above" in printed
        fractions.append(recipe["data"]["dev"])
    assert fractions[0] > fractions[1] > fractions[2]


STARS = [
    {"review": row["note"], "stars": min(5, max(1, round(row["points"])))}
    for row in tables.rated(300)
]


def test_flags_choose_between_readings(workspace: Workspace) -> None:
    workspace.write("a.csv", as_csv(STARS))
    recipe, printed = proposed(workspace, "a.csv")
    assert recipe["task"]["kind"] == "classification"
    assert "--task regression" in printed
    recipe, _ = proposed(workspace, "a.csv", "--task", "regression")
    assert recipe["task"].items() >= {"kind": "regression", "score": "stars"}.items()
    recipe, _ = proposed(workspace, "a.csv", "--task", "language-model")
    assert "task" not in recipe


def test_a_terminal_is_asked(workspace: Workspace) -> None:
    workspace.write("a.csv", as_csv(STARS))
    with (
        mock.patch("sys.stdin.isatty", return_value=True),
        mock.patch("typer.prompt", side_effect=[7, 2]) as prompt,
    ):
        recipe, printed = proposed(workspace, "a.csv")
    assert prompt.call_count == 2  # 7 is no choice
    chosen = next(line for line in printed.splitlines() if line.startswith("  2 "))
    assert recipe["task"]["kind"] in chosen


def test_equally_likely_readings_are_refused_until_one_is_chosen(workspace: Workspace) -> None:
    rows = [
        {"c1": row["Bewertung"], "c2": row["Urteil"], "c3": "ab"[number % 2]}
        for number, row in enumerate(REVIEWS)
    ]
    workspace.write("a.csv", as_csv(rows))
    assert "--label c3" in refused(workspace, "a.csv").error
    recipe, _ = proposed(workspace, "a.csv", "--label", "c3")
    assert recipe["task"]["label"] == "c3"


def test_words_with_tags(workspace: Workspace) -> None:
    lines = [
        "".join(f"{word}\tX\t{'B-N' if word in tables.NOUNS else 'O'}\n" for word in text.split())
        for text in (row["Bewertung"] for row in REVIEWS)
    ]
    workspace.write("a.conll", "\n".join(lines))
    recipe, printed = proposed(workspace, "a.conll")
    expected = {"kind": "tagging", "tokens": "tokens", "tags": "tags"}
    assert recipe["task"].items() >= expected.items()
    assert "2 different: O" in printed
    forecast = json.loads(workspace.run("validate", "proposed.toml", *FEW_STEPS, "--json"))
    assert forecast["recipe"]["task"]["kind"] == "tagging"
    workspace.write("a.txt", "\n".join(lines))
    _, printed = proposed(workspace, "a.txt")
    assert ".conll" in printed


def test_parallel_files(workspace: Workspace) -> None:
    rows = tables.translations()
    for split in ("train", "val"):
        for side, column in (("en", "x"), ("de", "y"), ("fr", "y")):
            workspace.write(f"mt/{split}.{side}", "".join(f"{row[column]}\n" for row in rows))
    sides = [f"mt/{split}.{side}" for split in ("val", "train") for side in ("en", "de")]
    recipe, _ = proposed(workspace, *sides)
    assert recipe["data"]["corpus"] == "mt/train.{en,de}"
    assert recipe["data"]["dev"] == "mt/val.{en,de}"
    assert recipe["task"].items() >= {"kind": "translation", "source": "en", "target": "de"}.items()
    assert "3 languages" in refused(workspace, "mt").error
    recipe, _ = proposed(workspace, "mt", "--text", "fr", "--label", "en")
    assert recipe["data"]["corpus"] == "mt/train.{fr,en}"


WRONG = {
    "an unknown task": (("a.csv", "--task", "clasification"), "did you mean classification?"),
    "a task it writes no recipe for": (("a.csv", "--task", "digits"), "digits"),
    "an unknown column": (("a.csv", "--label", "Urtel"), "did you mean 'Urteil'?"),
    "an unknown group": (("a.csv", "--group", "who"), "--group who"),
    "a task that does not fit": (("a.csv", "--task", "extractive"), "no reading fits"),
    "a column of plain text": (("a.txt", "--text", "body"), "plain text"),
    "a label of plain text": (("a.txt", "--label", "mood"), "--label mood"),
    "no such file": (("none.csv",), "no such file"),
    "no name": (("a.csv", " "), "the name of a source is empty"),
    "an empty file": (("empty.csv",), "empty.csv"),
    "a header alone": (("header.csv",), "no row"),
    "few rows": (("few.csv",), "too few"),
    "numbers alone": (("numbers.csv",), "no column of text"),
    "two columns of one name": (("twice.csv",), "2 columns are called 'text'"),
    "a quote that is never closed": (("quote.csv",), "never closed"),
    "a workbook": (("book.csv",), "Save a sheet as CSV"),
    "another encoding": (("cyrillic.csv",), "not valid UTF-8"),
    "a broken line of JSON": (("broken.jsonl",), "broken.jsonl"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence(workspace: Workspace, case: str) -> None:
    few = [{"text": row["Bewertung"], "label": row["Urteil"]} for row in REVIEWS[:6]]
    workspace.write("a.csv", as_csv(REVIEWS))
    workspace.write("a.txt", generated_text(100))
    workspace.write("empty.csv", "")
    workspace.write("header.csv", "text,label\n")
    workspace.write("few.csv", as_csv(few))
    workspace.write("numbers.csv", "a,b\n" + "".join(f"{n},{n / 7}\n" for n in range(60)))
    workspace.write("twice.csv", "text,text\n" + "good,bad\n" * 60)
    workspace.write("quote.csv", 'text,label\n"good,1\n' + "bad,0\n" * 60)
    workspace.write("book.csv", b"PK\x03\x04\x14\0\x08\0" + bytes(range(256)) * 4)
    workspace.write("cyrillic.csv", ("текст;да\n" * 60).encode("cp1251"))
    workspace.write("broken.jsonl", '{"text": "a"\n' * 60)
    arguments, expected = WRONG[case]
    assert expected in refused(workspace, *arguments).error


TRAINED = {
    "classification": tables.reviews(300),
    "regression": tables.rated(300),
    "pairs": tables.pairs(300),
    "extractive": tables.questions(300),
    "summarisation": tables.summaries(300),
}


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task, marks=() if task == "regression" else pytest.mark.long)
        for task in TRAINED
    ],
)
def test_new_train_predict(workspace: Workspace, task: str) -> None:
    rows = [*TRAINED[task]]
    random.Random(0).shuffle(rows)
    workspace.write("mine.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    workspace.run("new", "mine.jsonl")
    recipe = tomllib.loads((workspace.folder / "mine.toml").read_text(encoding="utf-8"))
    assert recipe["task"]["kind"] == task
    few = (*FEW_STEPS, "--set", "evaluate.documents=20")
    workspace.run("train", "mine.toml", *few)
    workspace.run("predict", "runs/mine", "mine.jsonl")
    workspace.run("errors", "runs/mine")
    predicted = (workspace.folder / "mine.jsonl.predicted.jsonl").read_text().splitlines()
    assert len(predicted) == len(rows)
    loaded = LoadedStudy.load(workspace.folder / "mine-study.toml", seeds=(0,))
    assert len(loaded.variants) == 2
