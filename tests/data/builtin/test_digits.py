"""Digits: scikit-learn's images, split by image; the question alone does not reveal the answer."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from sklearn.datasets import load_digits

from regard.core.errors import UserError
from regard.data.builtin import packages
from regard.data.builtin.digits import QUESTIONS, digits


def test_images_are_those_of_scikit_learn() -> None:
    images, labels = load_digits(return_X_y=True)
    by_image = {row["group"]: row for row in digits() if row["answer"].isdigit()}
    assert len(by_image) == len(images) == 1_797
    for number, (image, digit) in enumerate(zip(images, labels, strict=True)):
        row = by_image[f"image {number}"]
        assert row["image"] == list(image)
        assert row["answer"] == str(digit)


def test_every_image_has_three_questions_in_one_split() -> None:
    questions = defaultdict(list)
    for row in digits():
        assert len(row["image"]) == 64
        assert all(isinstance(pixel, int) and 0 <= pixel <= 16 for pixel in row["image"])
        questions[row["group"]].append(row)
    assert all(
        len(rows) == 3 and len({row["split"] for row in rows}) == 1 for rows in questions.values()
    )


def test_identical_images_are_in_one_split() -> None:
    found = defaultdict(set)
    for row in digits():
        found[tuple(row["image"])].add(row["split"])
    assert all(len(splits) == 1 for splits in found.values())


def test_answers_agree_with_the_digit() -> None:
    digit_of = {row["group"]: int(row["answer"]) for row in digits() if row["answer"].isdigit()}
    even, large = (set(QUESTIONS[kind][0]) for kind in (1, 2))
    for row in digits():
        digit = digit_of[row["group"]]
        if row["question"] in even:
            assert row["answer"] == ("no" if digit % 2 else "yes")
        elif row["question"] in large:
            assert row["answer"] == ("no" if digit < 5 else "yes")


def test_question_alone_does_not_solve_it() -> None:
    best = defaultdict(Counter)
    for row in digits():
        if row["split"] == "train":
            best[row["question"]][row["answer"]] += 1
    held_out = [row for row in digits() if row["split"] != "train"]
    correct = [best[row["question"]].most_common(1)[0][0] == row["answer"] for row in held_out]
    assert np.mean(correct) < 0.45
    assert len(best) == 9


def test_missing_package_names_the_pip_command() -> None:
    with pytest.raises(UserError, match=r"no-such-thing.*pip install 'regard\[x\]'"):
        packages.packaged_file("no-such-thing", "a.csv", corpus="c", install="'regard[x]'")
    with pytest.raises(UserError, match=r"scikit-learn has no file nowhere.csv"):
        packages.packaged_file("scikit-learn", "nowhere.csv", corpus="c", install="scikit-learn")
