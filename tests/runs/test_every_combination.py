"""Every family with every attention kind, audited and trained for two steps by `regard.train`.

The text is generated. The default tests take every third pair of family and kind, each with
another projection, position, context and batching; the long ones take all pairs and choices."""

from __future__ import annotations

from itertools import cycle, product

import pytest
from tests.journeys.workspace import generated_text

import regard
from regard.attention.kinds import ATTENTION, BrokenKind
from regard.attention.positions import POSITIONS
from regard.core.errors import UserError
from regard.models.families import FAMILIES

PROJECTIONS = ("separate", "shared-qk", "shared-qkv")
CONTEXTS = (2, 4, 12, 16)
BATCHES = ("packed", "bucketed", "padded")
PAIRS = list(product(FAMILIES.names(), ATTENTION.names()))
PAIR_CASES = [
    pytest.param(number, pair, marks=pytest.mark.long if number % 3 else (), id=" ".join(pair))
    for number, pair in enumerate(PAIRS)
]
CHOICES = list(product(PROJECTIONS, POSITIONS.names(), CONTEXTS, BATCHES))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("combinations")
    (folder / "generated.txt").write_text(generated_text(120))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        yield folder


def recipe(text, family: str, kind: str, choice) -> regard.Recipe:
    projections, position, context, batches = choice
    attention = {"kind": kind}
    if issubclass(ATTENTION.get(kind).part, BrokenKind):
        attention["on_purpose"] = True
    if kind == "group":
        attention["groups"] = 2
    model = {"family": family, "layers": 1, "width": 8, "context": context, "attention": attention}
    if family != "recurrent":
        model |= {"heads": 2, "projections": projections, "positions": position}
    return regard.Recipe.from_table(
        {
            "name": "combination",
            "data": {"corpus": str(text / "generated.txt"), "dev": 0.1, "test": 0.1},
            "tokenizer": {"kind": "word"},
            "model": model,
            "train": {"max_steps": 2, "batch_tokens": 64, "batches": batches, "threads": 1},
            "evaluate": {"documents": 5},
            "samples": {"prompts": [""], "max_new_tokens": 3},
        }
    )


def train(text, out, family: str, kind: str, choice) -> bool:
    """Train if the family accepts the choice; returns whether it does."""
    try:
        settings = recipe(text, family, kind, choice)
    except UserError:
        return False
    run = regard.train(settings, out=out)
    broken = issubclass(ATTENTION.get(kind).part, BrokenKind)
    audit = run.results().audit
    assert audit.verdict == "clean" or broken
    assert bool(audit.broken) == broken
    return True


@pytest.mark.parametrize(("number", "pair"), PAIR_CASES)
def test_each_family_trains_with_each_kind(text, tmp_path, number, pair):
    # Neighbouring pairs begin at different choices, so that all choices occur.
    begin = (number * 29) % len(CHOICES)
    choices = [*CHOICES[begin:], *CHOICES[:begin]]
    accepted = (choice for choice in choices if train(text, tmp_path / "run", *pair, choice))
    crosses = ATTENTION.get(pair[1]).properties["cross"]
    assert (next(accepted, None) is not None) == (crosses or pair[0] != "recurrent")


@pytest.mark.long
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_combination_trains(text, tmp_path, pair):
    rest = cycle(product(CONTEXTS, BATCHES))
    choices = [(*one, *next(rest)) for one in product(PROJECTIONS, POSITIONS.names())]
    accepted = [train(text, tmp_path / str(n), *pair, choice) for n, choice in enumerate(choices)]
    crosses = ATTENTION.get(pair[1]).properties["cross"]
    assert any(accepted) == (crosses or pair[0] != "recurrent")
