"""A stranger's first hour: files as people make them, and a right verdict in at most five commands.

Five people: a student with a spreadsheet, one whose labels say nothing, a researcher whose own
attention leaks, a teacher with answers from every spreadsheet there is, and an engineer with scores
of two models from another tool.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.data.recognition import tables
from tests.journeys.test_new import as_csv
from tests.journeys.workspace import CommandResult, Workspace

MAX_COMMANDS = 5


class Stranger:
    """Types commands, and counts them."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.folder, self.typed = workspace, workspace.folder, 0

    def types(self, *arguments: str, exit_code: int = 0) -> CommandResult:
        self.typed += 1
        assert self.typed <= MAX_COMMANDS
        result = self.workspace.invoke(*arguments)
        assert result.exit_code == exit_code, result.stderr
        return result


@pytest.fixture
def stranger(workspace: Workspace) -> Stranger:
    return Stranger(workspace)


def steps(count: int, **settings: Any) -> Sequence[str]:
    short = {
        **{"train.max_steps": count, "train.epochs": 1000, "train.threads": 1, "train.lr": 1e-2},
        **{"train.evaluate_every": 0, "model.width": 16, "model.layers": 1, "model.heads": 2},
        **settings,
    }
    return [word for key, value in short.items() for word in ("--set", f"{key}={value}")]


def test_a_student_with_a_spreadsheet(stranger: Stranger) -> None:
    """Semicolons, CRLF, a byte order mark, umlauts, empty rows, an empty column: the label follows
    from the words, and the model is said to be better than guessing."""
    rows = [
        {"Nr.": n, "Bewertung": f"Grüße! {row['Bewertung']}", "Urteil": row["Urteil"], "Notiz": ""}
        for n, row in enumerate(tables.reviews(400), start=1)
    ]
    content = as_csv(rows, ";", end="\r\n") + ";;;\r\n" * 7
    stranger.workspace.write("Rückmeldungen (final) 2.csv", content.encode("utf-8-sig"))
    said = stranger.types("new", "Rückmeldungen (final) 2.csv", "--name", "moods").stdout
    assert "400 rows, separated by semicolons, UTF-8 with a byte order mark, 7 empty rows" in said
    assert "classification of 'Bewertung' by 'Urteil'" in said
    shown = stranger.types("train", "moods.toml", *steps(60)).stdout
    majority = [line for line in shown.splitlines() if "majority class" in line]
    assert [line.split()[-1] for line in majority[:2]] == ["better", "better"]  # dev and test
    new = [{"Nr.": 1, "Bewertung": "This film was superb, and the plot was lovely."}]
    new += [{"Nr.": 2, "Bewertung": "The show was dull, and that song was awful."}]
    stranger.workspace.write("neu.csv", as_csv(new, ";", end="\r\n").encode("utf-16"))
    stranger.workspace.write("namenlos.csv", "1;Ein Film\r\n")
    refused = stranger.types("predict", "runs/moods", "namenlos.csv", exit_code=2)
    assert "no column 'Bewertung'" in refused.error
    assert "data.header" not in refused.error  # a setting of the training, which is over
    stranger.workspace.write("lose.csv", "Bewertung\r\nGut, wirklich\r\n")
    refused = stranger.types("predict", "runs/moods", "lose.csv", exit_code=2)
    assert refused.error.endswith("row 2: 2 columns where the header has 1. Quote the comma.")
    stranger.types("predict", "runs/moods", "neu.csv", "--out", "neu-urteil.csv")
    with (stranger.folder / "neu-urteil.csv").open(encoding="utf-8", newline="") as file:
        assert [row["predicted"] for row in csv.DictReader(file)] == ["good", "bad"]


def test_labels_that_say_nothing(stranger: Stranger) -> None:
    """Exports of a folder in UTF-16, rows of training in test again, seven of eight rows alike:
    what is contaminated leads, and a model that learnt nothing is not called better."""
    generator = random.Random(0)
    rows = [
        {"Kommentar": row["Bewertung"], "Spam?": "ja" if generator.random() < 0.12 else "nein"}
        for row in tables.reviews(400, seed=1)
    ]
    parts = {"training": rows[:300], "valid": rows[300:350], "test": rows[280:]}
    for name, part in parts.items():
        content = as_csv(part, "\t", end="\r\n").encode("utf-16")
        stranger.workspace.write(f"Export/{name}_set.csv", content)
    said = stranger.types("new", "Export").stdout
    assert "20 of 120 rows of test stand in training" in said
    assert "unbalanced" in said
    shown = stranger.types(
        "train", "Export.toml", *steps(5, **{"data.drop_overlap": "false"})
    ).stdout
    assert "CONTAMINATED" in shown
    assert "test rows stand in training (20 word for word)" in shown
    majority = [line for line in shown.splitlines() if "majority class" in line]
    assert majority
    assert not any(line.rstrip().endswith("better") for line in majority)


LEAKY = '''"""Average of all values so far, as I understood the paper."""

from torch import Tensor

from regard.attention.function import AttentionFunction, HeadShape
from regard.attention.kinds import AttentionKind, kind


@kind("mine", cost="n² · d")
class Mine(AttentionKind):
    """Scores that are centred over all keys."""

    def build(self, shape: HeadShape) -> AttentionFunction:
        return Centred()


class Centred(AttentionFunction):
    def normalise(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """The mean is over keys that the mask forbids, too."""
        weights = super().normalise(scores, allowed)
        return weights * (1 + scores.mean(dim=-1, keepdim=True))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)
'''


def test_a_researcher_whose_attention_leaks(stranger: Stranger) -> None:
    """Saved on Windows; the contract that fails is named, and nothing is trained on it."""
    source = LEAKY.replace("\n", "\r\n").encode("utf-8-sig")
    stranger.workspace.write("My Kind.py", source)
    stranger.workspace.recipe("model.toml", model__attention="mine")
    checked = stranger.types("check", "My Kind.py", "--configurations", "3", exit_code=1)
    assert "forbidden" in checked.stdout
    refused = stranger.types("train", "model.toml", "--with", "My Kind.py", exit_code=2)
    assert "sees the future: position" in refused.stderr
    assert not (stranger.folder / "runs").exists()


def test_a_teacher_with_answers_from_every_spreadsheet(stranger: Stranger) -> None:
    """The same right answer in seven ways of writing it, and one that is wrong."""
    stranger.types("exercise", "copying", "--new", "7", "--out", "sheet.json")
    query = [28.8, 52.2, 4.2]
    points, commas = (",".join(map(str, query)), ";".join(map(str, query)).replace(".", ","))
    answers: dict[str, bytes] = {
        "Anna Müller.csv": commas.encode("utf-8-sig") + b"\r\n\r\n",
        "bob.csv": points.encode() + b",,\r\n",
        "carla (1).csv": commas.encode("utf-16"),
        "dan.csv": commas.replace(";", "\t").encode() + b"\n",
        "eva.csv": points.replace(",", "\r").encode(),
        "finn.json": json.dumps({"seed": 7, "q": query}).encode("utf-8-sig"),
        "gus.csv": b"28.8;52.2;4.2\n",
        "hal.csv": b"1;0;0\n",
    }
    for name, content in answers.items():
        stranger.workspace.write(f"Abgaben/{name}", content)
    mark = ("exercise", "copying", "--new", "7", "--answer", "Abgaben", "--out", "marks.csv")
    stranger.types(*mark, exit_code=1)
    with (stranger.folder / "marks.csv").open(encoding="utf-8", newline="") as file:
        marks = {row["file"]: row["passed"] for row in csv.DictReader(file)}
    assert {name for name, passed in marks.items() if passed != "yes"} == {"hal.csv"}
    assert len(marks) == len(answers)


def scores(folder: Path, name: str, *, gain: float) -> None:
    """A table as a spreadsheet in Europe exports it: cp1252, semicolons, decimal commas."""
    hard, noise = random.Random(0), random.Random(name)
    rows = [
        {
            "Lfd. Nr.": item,
            "Straße": f"Straße {item % 40}",
            "Fehler": f"{abs(hard.gauss(2, 1)) - gain + noise.gauss(0, 0.2):.3f}".replace(".", ","),
        }
        for item in range(200)
    ]
    content = as_csv(rows, ";", end="\r\n") + "\r\n\r\n"
    (folder / name).write_bytes(content.encode("cp1252"))


def test_an_engineer_with_scores_of_another_tool(stranger: Stranger) -> None:
    """A true gain is found, and none is not."""
    for name, gain in (("alt.csv", 0.0), ("neu (2).csv", 0.2), ("kopie.csv", 0.0)):
        scores(stranger.folder, name, gain=gain)
    options = ("--metric", "Fehler", "--id", "Lfd. Nr.", "--group", "Straße", "--lower-is-better")
    better = stranger.types("judge", "alt.csv", "neu (2).csv", *options, "--out", "a").stdout
    assert "this neu (2) model is better than this alt model by 0.2" in " ".join(better.split())
    same = stranger.types("judge", "alt.csv", "kopie.csv", *options, "--out", "b").stdout
    assert "not distinguishable" in " ".join(same.split())
