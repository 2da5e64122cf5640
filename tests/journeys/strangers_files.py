"""Files that people give by mistake, and commands that give them; each answer names what is said.

Walked by `test_wrong_inputs.py`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

ROWS = [
    (f"The {noun} was {mood} and we {deed} {number}.", "pos" if mood == "good" else "neg")
    for number, (noun, mood, deed) in enumerate(
        (noun, mood, deed)
        for noun in ("film", "book", "meal", "show")
        for mood in ("good", "dull")
        for deed in ("laughed", "slept", "left", "stayed", "ate")
    )
]


def table(*rows: tuple[str, ...], separator: str = ",") -> str:
    return "".join(separator.join(row) + "\n" for row in rows)


def recipe(**task: str) -> str:
    lines = ['[data]\ncorpus = "reviews.csv"\n[task]']
    return "\n".join([*lines, *(f'{key} = "{value}"' for key, value in task.items()), ""])


OBJECTS = [{"text": text, "label": label} for text, label in ROWS]
NOISE = random.Random(0).randbytes(2000)
TASK = {"kind": "classification", "text": "text", "label": "label"}

FILES: Mapping[str, str | bytes] = {
    "reviews.csv": table(("text", "label"), *ROWS),
    # files of other programs
    "book.xlsx": b"PK\x03\x04\x14\0" + NOISE,
    "letter.docx": b"PK\x03\x04\x14\0" + NOISE,
    "old.xls": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + NOISE,
    "all.zip": b"PK\x03\x04\x14\0" + NOISE,
    "paper.pdf": b"%PDF-1.7\n" + NOISE,
    "photo.csv": b"\x89PNG\r\n\x1a\n" + NOISE,
    "frame.pkl": b"\x80\x04\x95\x10\0\0\0\0\0\0\0" + NOISE,
    "table.csv": b"PAR1" + NOISE,
    "packed.csv": b"\x1f\x8b\x08\0" + NOISE,
    "rows.sqlite": b"SQLite format 3\0" + NOISE,
    "analysis.ipynb": json.dumps({"cells": [], "nbformat": 4}),
    "page.csv": "<!DOCTYPE html>\n<html><body>a, b</body></html>\n" * 30,
    "pointer.csv": "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
    # tables that are none
    "curly.csv": "text,label\n" + "".join(f"“{text}, yes”,“{label}”\n" for text, label in ROWS),
    "spaces.csv": "text label\n" + "".join(f'"{text}" {label}\n' for text, label in ROWS),
    "constant.csv": table(("text", "label"), *((text, "pos") for text, _ in ROWS)),
    "ids.csv": table(
        ("text", "label"), *((text, str(10**30 + n)) for n, (text, _) in enumerate(ROWS))
    ),
    "strings.json": json.dumps([text for text, _ in ROWS]),
    "columns.json": json.dumps({"text": [t for t, _ in ROWS], "label": [n for _, n in ROWS]}),
    "chat.jsonl": "".join(
        json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n" for text, _ in ROWS
    ),
    "python.jsonl": "".join(f"{row}\n" for row in OBJECTS),
    "tagged.csv": table(("Word", "Tag"), *((f"w{n}", "OB"[n % 2]) for n in range(99))),
    # recipes
    "recipe.yaml": "data:\n  corpus: reviews.csv\n",
    "recipe.json": '{"data": {"corpus": "reviews.csv"}}',
    "typographic.toml": "name = “mine”\n",
    "windows.toml": '[data]\ncorpus = "C:\\Users\\me\\reviews.csv"\n',
    "true.toml": '[data]\ncorpus = "reviews.csv"\ndrop_overlap = True\n',
    "null.toml": '[data]\ncorpus = "reviews.csv"\ngroup = None\n',
    "colon.toml": "[train]\nepochs: 3\n",
    "bare.toml": "[data]\ncorpus = reviews.csv\n",
    "twice.toml": "[train]\nlr = 1e-3\n[train]\nepochs = 1\n",
    "utf16.toml": '[data]\ncorpus = "reviews.csv"\n'.encode("utf-16"),
    "capital.toml": '[Data]\ncorpus = "reviews.csv"\n',
    "gone.toml": '[data]\ncorpus = "gone.csv"\n',
    "swapped.toml": recipe(kind="classification", text="label", label="text"),
    "same.toml": recipe(kind="pairs", first="text", second="text", label="label"),
    "column.toml": recipe(**{**TASK, "text": "Text"}),
    "numbers.toml": recipe(kind="regression", text="text", score="label"),
    "good.toml": recipe(**TASK),
    "one-seed.toml": 'base = "good.toml"\nseeds = 3\n[variants.a]\n',
    "unnamed-score.toml": 'base = "good.toml"\ndecides = "accuracy"\n[variants.a]\n',
}

COMMANDS: list[tuple[str, tuple[str, ...]]] = [
    ("new book.xlsx", ("book.xlsx", "a sheet as CSV")),
    ("new letter.docx", ("letter.docx", "plain text")),
    ("new old.xls", ("old.xls", "a sheet as CSV")),
    ("new all.zip", ("all.zip", "Unpack it")),
    ("new paper.pdf", ("paper.pdf", ".txt")),
    ("new photo.csv", ("photo.csv", "a picture")),
    ("new frame.pkl", ("frame.pkl", "never opened", "Parquet")),
    ("new table.csv", ("table.csv", ".parquet")),
    ("new packed.csv", ("packed.csv", ".gz")),
    ("new rows.sqlite", ("rows.sqlite", "as CSV")),
    ("new analysis.ipynb", ("analysis.ipynb", "a notebook")),
    ("new page.csv", ("page.csv", "a web page")),
    ("new pointer.csv", ("pointer.csv", "git lfs pull")),
    ("new curly.csv", ("curly.csv, row 2", "straight quotes")),
    ("new spaces.csv", ("spaces.csv, row 2",)),
    ("new constant.csv --label label", ("--label label", "nothing to classify")),
    ("new ids.csv --label label", ("--label label", "no classes")),
    ("new reviews.csv --text label --label text", ("--label text", "no classes")),
    ("new reviews.csv --text text --label text", ("--text and --label are both text",)),
    ("new reviews.csv --text Text", ("--text Text", "'text'?")),
    ("new strings.json", ("strings.json", "object")),
    ("new columns.json", ("columns.json", "a row for each text")),
    ("new chat.jsonl", ("chat.jsonl", "'messages'", "a row for each text")),
    ("new python.jsonl", ("python.jsonl, line 1", "double quotes")),
    ("new tagged.csv", ("tagged.csv", ".conll")),
    ("new https://example.com/reviews.csv", ("https://example.com/reviews.csv", "Download it")),
    (r"new 'C:\Users\me\reviews.csv'", ("reviews.csv", "no such file")),
    ("new reviews.csv --name 'my run'", ("--name my run", "letters")),
    ("new reviews.csv --name a/b", ("--name a/b", "letters")),
    ("new reviews.csv --out .", ("--out .", "reviews.toml")),
    ("new good.toml", ("good.toml", "regard train")),
    ("new reviews.csv --task sentiment", ("--task sentiment", "classification")),
    ("validate recipe.yaml", ("recipe.yaml", "TOML")),
    ("validate recipe.json", ("recipe.json", "TOML")),
    ("validate typographic.toml", ("typographic.toml, line 1", "straight quotes")),
    ("validate windows.toml", ("windows.toml, line 2", "single quotes")),
    ("validate true.toml", ("true.toml, line 3", "lower case")),
    ("validate null.toml", ("null.toml, line 3", "TOML has no such value")),
    ("validate colon.toml", ("colon.toml, line 2", "not a colon")),
    ("validate bare.toml", ("bare.toml, line 2", '"quotes"')),
    ("validate twice.toml", ("twice.toml, line 3", "once")),
    ("validate utf16.toml", ("utf16.toml", "UTF-8")),
    ("validate capital.toml", ("capital.toml, line 1", "data?")),
    ("validate gone.toml", ("gone.csv", "no such file")),
    ("validate swapped.toml", ("reviews.csv", "task.text")),
    ("validate same.toml", ("task.first and task.second are both 'text'",)),
    ("validate column.toml", ("'Text'", "did you mean 'text'?", "task.text")),
    ("validate numbers.toml", ("reviews.csv, row 2", "'pos'")),
    ("validate .", ("recipe.toml",)),
    ("compare one-seed.toml", ("one-seed.toml, line 2", "seeds = 3", "a list")),
    ("compare unnamed-score.toml", ("decides = 'accuracy'", "accuracy, macro_f1")),
    ("train good.toml --epochs 3", ("--epochs", "--set train.epochs=")),
    ("train good.toml --seed 3", ("--seed", "--set train.seed=")),
    ("train good.toml --batch-size 8", ("--batch-size", "train.batch_tokens", "tokens")),
    ("train good.toml --wandb", ("--wandb", "train.tensorboard")),
    ("train good.toml --output-dir x", ("--output-dir", "--out")),
    ("train good.toml -o x", ("-o", "--out?")),
    ("train good.toml --set train.lr 1e-3", ("1e-3", "--set train.lr=1e-3")),
    ("train good.toml --set name=a/b", ("name = 'a/b'", "letters")),
    ("fit good.toml", ("fit", "regard train?")),
    ("list", ("list", "regard ls?")),
    ("version", ("version", "regard --version?")),
    ("corpus write reviews.csv reviews.csv", ("reviews.csv exists already",)),
    ("corpus write reviews.csv reviews.xlsx", ("reviews.xlsx", ".csv")),
]
