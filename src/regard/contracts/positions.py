"""What every position kind owes: its vectors by themselves, its relation inside an attention.

Relations are put into scaled dot-product attention, and owe what attention owes. Shapes: b batch,
t place, w width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import torch

from regard.attention.function import HeadShape
from regard.attention.kinds.dot import Dot
from regard.attention.positions import AbsolutePositionKind, PositionKind
from regard.contracts.case import (
    AttentionCase,
    attention_cases,
    random_settings,
    random_shape,
    randomize_parameters,
)
from regard.contracts.contract import (
    CaseSizes,
    Contract,
    Contracts,
    ContractViolation,
    NotApplicable,
    check_equal,
)
from regard.contracts.declarations import check_settings
from regard.core.errors import UserError

INSIDE_ATTENTION = (
    "shape",
    "fast-path",
    "gradcheck",
    "forbidden-keys",
    "padding",
    "cache",
    "batch",
    "saved",
    "deterministic",
)
"Contracts of attention which a relative position owes inside of it."


@dataclass(frozen=True)
class PositionCase:
    settings: PositionKind
    shape: HeadShape
    length: int
    random: Random

    def __str__(self) -> str:
        head = f"{self.shape.heads} heads of {self.shape.width}"
        return f"length {self.length}, context {self.shape.context}, {head}"


POSITION_CONTRACTS: Contracts[PositionCase] = Contracts()


@POSITION_CONTRACTS.add("recipe")
def recipe(case: PositionCase) -> None:
    """Its settings survive a recipe, each is documented, and so is the position."""
    check_settings(case.settings)


@POSITION_CONTRACTS.add("parameters")
def parameters(case: PositionCase) -> None:
    """`embedding_parameters` and `relative_parameters` say how many parameters are made."""
    width, context = case.shape.model_width, case.shape.context
    vectors = case.settings.build_embedding(width=width, context=context)
    relative_position = case.settings.build_relative_position(case.shape)
    for what, module, told in (
        ("vector", vectors, case.settings.embedding_parameters(width=width, context=context)),
        ("relation", relative_position, case.settings.relative_parameters(case.shape)),
    ):
        made = 0 if module is None else sum(p.numel() for p in module.parameters())
        if told != made:
            raise ContractViolation(f"{what}_parameters says {told:,}, {made:,} are made ({case})")


@POSITION_CONTRACTS.add("vectors")
def vectors(case: PositionCase) -> None:
    """A place has one finite vector of the right width, the same wherever it is asked for."""
    width = case.shape.model_width
    module = case.settings.build_embedding(width=width, context=case.shape.context)
    if module is None:
        raise NotApplicable("it adds no vectors to the tokens")
    randomize_parameters(module, torch.Generator().manual_seed(0))
    positions = torch.arange(case.length)
    shuffled = positions[torch.tensor(case.random.sample(range(case.length), case.length))]
    found = module(torch.stack((positions, shuffled)))
    if found.shape != (2, case.length, width) or not found.isfinite().all():
        raise ContractViolation(
            f"gives {tuple(found.shape)}, not (2, {case.length}, {width}) finite numbers ({case})"
        )
    check_equal(found[1], found[0, shuffled], what="vectors of the same place", case=case)
    if case.length > 1 and torch.equal(found[0, 0], found[0, 1]):
        raise ContractViolation(f"places 0 and 1 have the same vector ({case})")


@POSITION_CONTRACTS.add("sort")
def sort(case: PositionCase) -> None:
    """`relative_type` says what `build_relative_position` gives: a rotation, a bias, or nothing."""
    relative_position = case.settings.build_relative_position(case.shape)
    told = case.settings.relative_type
    if relative_position is None:
        given = None
    else:
        positions = torch.arange(case.length)[None]
        given = "rotation" if relative_position.bias(positions, positions) is None else "bias"
    if told != given:
        raise ContractViolation(
            f"relation_sort is {told!r}, build_relation gives {given!r} ({case})"
        )
    if isinstance(case.settings, AbsolutePositionKind) and relative_position is not None:
        raise ContractViolation("an absolute position has vectors, not a relation")


def position_cases(
    part: type[PositionKind], *, seed: str, count: int, sizes: CaseSizes
) -> Iterator[PositionCase]:
    for number in range(count):
        random = Random(f"{seed}/{number}")
        yield _draw(part, random, sizes)


def _draw(part: type[PositionKind], random: Random, sizes: CaseSizes) -> PositionCase:
    refusal = ""
    for _ in range(20):
        shape, length = random_shape(random, sizes)
        settings = random_settings(part, random)
        try:
            settings.build_embedding(width=shape.model_width, context=shape.context)
            settings.build_relative_position(shape)
        except UserError as problem:
            refusal = str(problem)
        else:
            return PositionCase(settings, shape, length, random)
    raise ContractViolation(f"refuses every one of 20 sizes, the last with: {refusal}")


def relative_position_cases(
    part: type[PositionKind], contract: Contract[AttentionCase], *, seed: str, count: int
) -> Iterator[AttentionCase]:
    """Scaled dot-product attention with this position inside."""
    if part().relative_type is None:
        raise NotApplicable("it does not act inside attention")
    yield from attention_cases(Dot, seed=seed, count=count, sizes=contract.sizes, position=part)
