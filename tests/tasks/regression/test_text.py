"""Regression: training, the unit of the numbers, decimal commas, refusals, a decoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.data.tokenizers.word import Word
from regard.evaluation.baselines.tfidf_ridge import NAME
from regard.runs.archive.item_errors import read_errors
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.regression.text import Regression

POINTS = {"poor": -1.5, "dull": -1.0, "fine": 1.0, "great": 2.5}
FILLERS = ["film", "book", "play", "song", "we", "saw", "it", "today", "again", "and", "then"]


def rows(count: int, seed: int) -> list[str]:
    """Two words of worth among others, in a unit whose zero is far away."""
    generator = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        worth = generator.choice([*POINTS], 2)
        words = generator.permutation([*worth, *generator.choice(FILLERS, 7)])
        points = 100 + 10 * sum(POINTS[word] for word in worth)
        lines.append(f"{' '.join(words)};{points:.1f}".replace(".", ","))
    return lines


def write_csv(file: Path, lines: list[str]) -> str:
    file.write_text("\n".join(["Bemerkung;Punkte", *lines]) + "\n", encoding="utf-8-sig")
    return str(file)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("regression")
    recipe = Recipe.from_table(
        {
            "name": "points",
            "data": {
                "corpus": write_csv(home / "train.csv", rows(500, 0)),
                "dev": write_csv(home / "dev.csv", rows(60, 1)),
                "test": write_csv(home / "test.csv", rows(60, 2)),
            },
            "tokenizer": {"kind": "word", "minimum_count": 1},
            "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 32, "context": 16},
            "task": {"kind": "regression", "text": "Bemerkung", "score": "Punkte"},
            "train": {
                "epochs": 6,
                "batch_tokens": 400,
                "lr": 5e-3,
                "evaluate_every": 0,
                "threads": 1,
            },
        }
    )
    return regard.train(recipe, out=home / "run")


def scores(run, of="model"):
    return {
        row.metric: row.value
        for row in run.results().estimates
        if (row.split, row.of) == ("test", of)
    }


def test_it_beats_the_mean_and_says_how_far_it_is_off_in_the_unit_of_the_numbers(trained):
    mean, model = scores(trained, "mean"), scores(trained)
    assert abs(mean["r2"]) < 0.1
    assert mean["pearson"] == 0
    assert model["r2"] > 0.8
    assert 0 < model["mae"] < 0.5 * mean["mae"]
    assert any(row.of.startswith(NAME) for row in trained.results().estimates)


def test_new_rows_are_predicted_in_the_unit_of_the_numbers(trained, tmp_path):
    lines = ["Bemerkung", "it great film today great again", "it poor film today poor again"]
    (tmp_path / "mine.csv").write_text("\n".join(lines), encoding="utf-8")
    good, poor = regard.predict(trained.folder, tmp_path / "mine.csv")
    assert good["predicted"] > 120 > 100 > 90 > poor["predicted"]
    assert "truth" not in good
    assert "confidence" not in good


def test_the_worst_predictions_come_first(trained):
    worst = read_errors([trained.folder], split="dev").worst(5)
    losses = [item.loss[0] for item in worst]
    assert losses == sorted(losses, reverse=True)
    assert worst[0].is_correct == (None,)
    assert {*worst[0].input.split()} <= {*FILLERS, *POINTS}


def test_evaluate_reproduces_the_results_of_training(trained):
    assert regard.evaluate(trained.folder).estimates == trained.results().estimates


def tools(family="encoder"):
    return Tools(Word(minimum_count=1).train(iter(["good bad film"])), 8, family)


def row(score, text="good film"):
    return Record({"text": text, "score": score}, at="reviews.csv, row 7")


def test_labels_are_standardised_whatever_the_unit():
    problems = [
        Regression().build_problem([row(a), row(b)], tools())
        for a, b in ((1, 3), ("1000000", "3000000"), ("1,5", "4,5"))
    ]
    labels = [
        problem.examples(row(score))[0].labels.tolist()
        for problem, score in zip(problems, (3, 3e6, "4,5"), strict=True)
    ]
    assert labels == [[1.0]] * 3
    restored = Regression().restore_problem(problems[2].state(), tools())
    assert (restored.mean, restored.deviation) == (3.0, 1.5)


@pytest.mark.parametrize("score", ["five", "", "1,234", "nan", True, [1]])
def test_what_is_no_number_is_refused_with_its_row(score):
    with pytest.raises(UserError, match=r"reviews\.csv, row 7: the score .* is no number"):
        Regression().items([row(score)])


def test_equal_scores_leave_nothing_to_learn():
    with pytest.raises(UserError, match="every training row has the score 2"):
        Regression().build_problem([row(2), row("2.0")], tools())


def test_equal_predictions_are_said():
    problem = Regression().build_problem([row(1), row(3)], tools())
    answers = [{"predicted": 2.0001}, {"predicted": 2.0002}]
    assert problem.warnings(answers)
    assert not problem.warnings([{"predicted": 1.0}, {"predicted": 3.0}])
