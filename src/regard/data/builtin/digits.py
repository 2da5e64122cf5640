"""Digits with questions: 1,797 real handwritten digits, 8 × 8 pixels with ink from 0 to 16.

Each image has three questions: which digit it is, whether it is even, whether it is larger than
four. The question alone gives the type of the answer, never the answer. The split is by image, so
no image straddles. Images: Alpaydin and Kaynak, 1998, as scikit-learn ships them.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from random import Random

from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.generated import assign_splits
from regard.data.builtin.packages import packaged_file

SEED = 79
IMAGES = {"train": 1_197, "dev": 300, "test": 300}
Question = tuple[tuple[str, ...], Callable[[int], str]]
QUESTIONS: tuple[Question, ...] = (
    (
        ("which digit is this", "what number is written here", "which digit do you see"),
        str,
    ),
    (
        ("is it even", "is this an even number", "can it be halved"),
        lambda digit: "yes" if digit % 2 == 0 else "no",
    ),
    (
        ("is it larger than four", "is this more than four", "does it exceed four"),
        lambda digit: "yes" if digit > 4 else "no",
    ),
)


@BUILTIN.add("digits", generated=False, columns=("image", "question", "answer"))
def digits() -> Iterator[Row]:
    """Real 8 × 8 handwritten digits of scikit-learn, with three questions each."""
    random = Random(SEED)
    images = list(enumerate(_images()))
    for split, (number, (image, digit)) in assign_splits(images, IMAGES, random):
        for wordings, answer in QUESTIONS:
            yield {
                "image": image,
                "question": random.choice(wordings),
                "answer": answer(digit),
                "split": split,
                "group": f"image {number}",
            }


def _images() -> list[tuple[list[int], int]]:
    """Every image as 64 values row by row, with the digit it shows.

    Reads scikit-learn's file directly, because importing scikit-learn takes seconds.
    """
    path = packaged_file(
        "scikit-learn",
        "sklearn/datasets/data/digits.csv.gz",
        corpus="digits",
        install="scikit-learn",
    )
    with gzip.open(path, mode="rt", encoding="ascii") as file:
        lines = ([int(float(value)) for value in line.split(",")] for line in file)
        return [(values[:64], values[64]) for values in lines]
