"""Every exercise: a sheet follows from its seed, and right answers are told from wrong ones."""

import itertools
import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.lessons.exercise import exercise_names, pose, sheet
from regard.lessons.sheets import sheet_text

seeds = st.integers(0, 999_999)
few = settings(max_examples=6, deadline=None)


def table(given, name):
    return torch.as_tensor(given[name], dtype=torch.float64)


def argmax(given):
    best = int((table(given, "keys") @ table(given, "q")).argmax())
    return {"output": table(given, "values")[best]}


def copying(given, task):
    chosen = int(task.split("is value ")[1][0]) - 1
    return {"q": 60 * table(given, "keys")[chosen]}


def selecting(given, task):
    order = [int(n) - 1 for n in task.split("values ")[1].split(", in")[0].split(", ")]
    return {"Q": 60 * table(given, "keys")[order]}


def averaging(given, task):
    a, b = (int(n) - 1 for n in task.split("values ")[1].split(",")[0].split(" and "))
    keys = table(given, "keys")
    wanted = torch.full((len(keys),), 1e-4, dtype=torch.float64)
    wanted[[a, b]] = 0.5
    # Four points that span a body: differences of scores can be what one likes.
    return {"q": torch.linalg.lstsq(keys[1:] - keys[0], (wanted[1:] / wanted[0]).log()).solution}


def average_of_two(given, task):
    a, b = (int(n) - 1 for n in task.split("values ")[1].split(",")[0].split(" and "))
    keys = table(given, "keys")
    return {"q": 20 * (keys[a] + keys[b])}


def extracting(given):
    a = table(given, "A")
    return {"M": 2 * a @ a.T}


def self_attention(given):
    a, b, c, d = (table(given, f"u_{letter}") for letter in "abcd")
    return {
        "Q": (torch.outer(d, a) + torch.outer(c, d)) / 36,
        "K": torch.eye(4, dtype=torch.float64),
        "V": (torch.outer(b, b) - torch.outer(c, c)) / 36,
    }


def receptive_field(given):
    seen = {place: {place} for place in range(8)}
    for layer in given["looks_at"]:
        seen = {place: seen[place] | seen[int(layer[place])] for place in range(8)}
    return {"seen": torch.tensor([place in seen[0] for place in range(8)])}


def three_masks(given, task):
    first, n = given["first"], given["first"] + given["second"]
    i, j = torch.arange(n)[:, None], torch.arange(n)
    if "unidirectional" in task:
        return {"mask": j <= i}
    return {"mask": (j < first) | ((i >= first) & (j <= i))}


def zero_masking(given):
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    return {"weights": table(given, "scores").masked_fill(hidden, -math.inf).softmax(dim=1)}


def null_threshold(given):
    margins = table(given, "best") - table(given, "null")
    answered, silent = table(given, "if_answered"), table(given, "if_silent")

    def f1(tau):
        return float(torch.where(margins >= tau, answered, silent).mean())

    middles = [(a + b) / 2 for a, b in itertools.pairwise(margins.sort().values.tolist())]
    return {"tau": torch.tensor([max([-100.0, *middles, 100.0], key=f1)], dtype=torch.float64)}


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
    posed, solve = pose(name, seed), SOLUTIONS[name]
    takes_task = solve.__code__.co_argcount == 2
    return posed, solve(posed.given, posed.task) if takes_task else solve(posed.given)


@pytest.mark.parametrize("name", SOLUTIONS)
@few
@given(seed=seeds)
def test_a_right_answer_passes(name: str, seed: int):
    posed, answer = solved(name, seed)
    mark = posed.mark(answer)
    assert mark.passed, mark


@pytest.mark.parametrize("name", SOLUTIONS)
@few
@given(seed=seeds)
def test_a_wrong_answer_does_not(name: str, seed: int):
    posed, answer = solved(name, seed)
    if name == "null-threshold":
        wrong = {"tau": torch.tensor([1e9], dtype=torch.float64)}
        best = posed.mark(answer).distance
        assert posed.mark(wrong).distance > best or posed.mark(wrong).distance == 0
        return
    wrong = {key: ~one if one.dtype == torch.bool else -one - 1 for key, one in answer.items()}
    assert not posed.mark(wrong).passed


@pytest.mark.parametrize("name", exercise_names())
@pytest.mark.parametrize("seed", [0, 7, 999_999])
def test_a_sheet_follows_from_its_seed_and_holds_no_answer(name: str, seed: int):
    made = sheet(name, seed)
    assert made == sheet(name, seed)
    assert set(made["answer"]) == set(made["wanted"])
    assert all(value is None for value in made["answer"].values())
    assert json.loads(sheet_text(made)) == json.loads(json.dumps(made))


@pytest.mark.parametrize("name", exercise_names())
def test_another_seed_gives_other_numbers(name: str):
    assert len({json.dumps(sheet(name, seed)["given"]) for seed in range(8)}) > 1


@pytest.mark.parametrize("seed", [-1, 1_000_000])
def test_a_seed_has_a_range(seed: int):
    with pytest.raises(UserError, match="from 0 to 999999"):
        pose("copying", seed)


def test_an_unknown_exercise_is_guessed():
    with pytest.raises(UserError, match="unknown exercise 'copyng' — did you mean copying"):
        pose("copyng", 0)
