"""Agreement of the labels of overlapping rows: copies, flipped copies and templates."""

from __future__ import annotations

import random

import pytest

from regard.data.overlap.agreement import LabelAgreement, label_agreement
from regard.data.overlap.search import Overlap

TRAIN = ["yes"] * 300 + ["no"] * 100


def pairs(count: int) -> list[Overlap]:
    rows = random.Random(0).sample(range(len(TRAIN)), count)
    return [Overlap(item, row, "near", 0.9) for item, row in enumerate(rows)]


def test_agreement_and_what_chance_gives() -> None:
    overlaps = [Overlap(0, 0, "near", 0.9), Overlap(2, 399, "exact", 1.0)]
    agreement = label_agreement(overlaps, ["yes", "?", "yes"], TRAIN)
    assert agreement == LabelAgreement(2, 1, 1.5, pytest.approx((2 * 0.75 * 0.25) ** 0.5))
    assert not agreement.at_chance  # too few to tell


@pytest.mark.parametrize("flipped", [False, True])
def test_labels_of_copies(flipped: bool) -> None:
    overlaps = pairs(60)
    flip = {"yes": "no", "no": "yes"} if flipped else {"yes": "yes", "no": "no"}
    agreement = label_agreement(overlaps, [flip[TRAIN[each.row]] for each in overlaps], TRAIN)
    assert agreement.same == (0 if flipped else 60)
    assert not agreement.at_chance


def test_labels_that_say_nothing_of_each_other() -> None:
    overlaps = pairs(200)
    labels = random.Random(1).choices(["yes", "no"], weights=[3, 1], k=200)
    agreement = label_agreement(overlaps, labels, TRAIN)
    assert 0 < agreement.same < 200
    assert agreement.at_chance


def test_copies_among_rows_of_nearly_one_label_are_not_at_chance() -> None:
    train = ["no"] * 95 + ["yes"] * 5
    overlaps = [Overlap(item, item, "near", 0.9) for item in range(40)]
    assert not label_agreement(overlaps, train, train).at_chance


def test_copies_of_which_a_third_have_another_label_are_not_at_chance() -> None:
    train = ["yes", "no"] * 30
    overlaps = [Overlap(item, item, "near", 0.9) for item in range(60)]
    labels = [train[item + 1] if item % 3 == 0 and item < 59 else train[item] for item in range(60)]
    agreement = label_agreement(overlaps, labels, train)
    assert agreement.same == 40
    assert not agreement.at_chance
