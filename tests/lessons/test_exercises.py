"""Every exercise: sheets are determined by their seed; correct answers pass, wrong ones fail."""

import itertools
import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.lessons.exercise import build_sheet, exercise_names, sheet_dict
from regard.lessons.sheet_json import dump_sheet

seeds = st.integers(0, 999_999)
few_examples = settings(max_examples=6, deadline=None)


def tensor(given, name):
    return torch.as_tensor(given[name], dtype=torch.float64)


def argmax(given):
    best = int((tensor(given, "keys") @ tensor(given, "q")).argmax())
    return {"output": tensor(given, "values")[best]}


def copying(given, task):
    target = int(task.split("is value ")[1][0]) - 1
    return {"q": 60 * tensor(given, "keys")[target]}


def selecting(given, task):
    order = [int(n) - 1 for n in task.split("values ")[1].split(", in")[0].split(", ")]
    return {"Q": 60 * tensor(given, "keys")[order]}


def averaging(given, task):
    a, b = (int(n) - 1 for n in task.split("values ")[1].split(",")[0].split(" and "))
    keys = tensor(given, "keys")
    target = torch.full((len(keys),), 1e-4, dtype=torch.float64)
    target[[a, b]] = 0.5
    # Affinely independent keys: a query exists for any differences of scores.
    return {"q": torch.linalg.lstsq(keys[1:] - keys[0], (target[1:] / target[0]).log()).solution}


def average_of_two(given, task):
    a, b = (int(n) - 1 for n in task.split("values ")[1].split(",")[0].split(" and "))
    keys = tensor(given, "keys")
    return {"q": 20 * (keys[a] + keys[b])}


def extracting(given):
    a = tensor(given, "A")
    return {"M": 2 * a @ a.T}


def self_attention(given):
    a, b, c, d = (tensor(given, f"u_{letter}") for letter in "abcd")
    return {
        "Q": (torch.outer(d, a) + torch.outer(c, d)) / 36,
        "K": torch.eye(4, dtype=torch.float64),
        "V": (torch.outer(b, b) - torch.outer(c, c)) / 36,
    }


def receptive_field(given):
    reached = {position: {position} for position in range(8)}
    for targets in given["attends_to"]:
        reached = {i: reached[i] | reached[int(targets[i])] for i in range(8)}
    return {"reached": torch.tensor([position in reached[0] for position in range(8)])}


def three_masks(given, task):
    first, n = given["first"], given["first"] + given["second"]
    i, j = torch.arange(n)[:, None], torch.arange(n)
    if "unidirectional" in task:
        return {"mask": j <= i}
    return {"mask": (j < first) | ((i >= first) & (j <= i))}


def zero_masking(given):
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    return {"weights": tensor(given, "scores").masked_fill(future, -math.inf).softmax(dim=1)}


def null_threshold(given):
    margins = tensor(given, "best") - tensor(given, "null")
    if_answered, if_null = tensor(given, "if_answered"), tensor(given, "if_null")

    def f1(tau):
        return float(torch.where(margins >= tau, if_answered, if_null).mean())

    midpoints = [(a + b) / 2 for a, b in itertools.pairwise(margins.sort().values.tolist())]
    return {"tau": torch.tensor([max([-100.0, *midpoints, 100.0], key=f1)], dtype=torch.float64)}


SOLUTIONS = {
    "argmax-by-hand": argmax,
    "copying": copying,
    "select-and-identity": selecting,
    "averaging": averaging,
    "average-of-two": average_of_two,
    "extracting": extracting,
    "self-attention-by-hand": self_attention,
    "receptive-field": receptive_field,
    "three-masks": three_masks,
    "zero-masking": zero_masking,
    "null-threshold": null_threshold,
}


def solved(name: str, seed: int):
    sheet, solve = build_sheet(name, seed), SOLUTIONS[name]
    needs_task = solve.__code__.co_argcount == 2
    return sheet, solve(sheet.given, sheet.task) if needs_task else solve(sheet.given)


@pytest.mark.parametrize("name", SOLUTIONS)
@few_examples
@given(seed=seeds)
def test_correct_answer_passes(name: str, seed: int):
    sheet, answer = solved(name, seed)
    mark = sheet.mark(answer)
    assert mark.passed, mark


@pytest.mark.parametrize("name", SOLUTIONS)
@few_examples
@given(seed=seeds)
def test_wrong_answer_fails(name: str, seed: int):
    sheet, answer = solved(name, seed)
    if name == "null-threshold":
        wrong = {"tau": torch.tensor([1e9], dtype=torch.float64)}
        best = sheet.mark(answer).distance
        assert sheet.mark(wrong).distance > best or sheet.mark(wrong).distance == 0
        return
    wrong = {
        name: ~value if value.dtype == torch.bool else -value - 1 for name, value in answer.items()
    }
    assert not sheet.mark(wrong).passed


@pytest.mark.parametrize("name", exercise_names())
@pytest.mark.parametrize("seed", [0, 7, 999_999])
def test_sheet_is_determined_by_its_seed_and_contains_no_answer(name: str, seed: int):
    sheet = sheet_dict(name, seed)
    assert sheet == sheet_dict(name, seed)
    assert set(sheet["answer"]) == set(sheet["format"])
    assert all(value is None for value in sheet["answer"].values())
    assert json.loads(dump_sheet(sheet)) == json.loads(json.dumps(sheet))


@pytest.mark.parametrize("name", exercise_names())
def test_seeds_give_different_numbers(name: str):
    assert len({json.dumps(sheet_dict(name, seed)["given"]) for seed in range(8)}) > 1


@pytest.mark.parametrize("seed", [-1, 1_000_000])
def test_seed_out_of_range_is_refused(seed: int):
    with pytest.raises(UserError, match="from 0 to 999999"):
        build_sheet("copying", seed)


def test_unknown_exercise_suggests_a_name():
    with pytest.raises(UserError, match=r"'copyng' .* did you mean copying"):
        build_sheet("copyng", 0)
