"""Contracts of position kinds: of their embeddings, and of relative positions inside attention.

Relative positions are put into scaled dot-product attention and must keep its contracts. Shapes:
b batch, t position, w width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

import torch

from regard.attention.function import HeadShape
from regard.attention.kinds.dot import Dot
from regard.attention.positions import AbsolutePositionKind, PositionKind
from regard.contracts.case import (
    AttentionCase,
    attention_cases,
    first_not_refused,
    random_settings,
    random_shape,
    randomize_parameters,
)
from regard.contracts.contract import (
    CaseSizes,
    Contracts,
    ContractViolation,
    NotApplicable,
    check_equal,
)
from regard.contracts.declarations import check_settings

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
"Contracts of attention that a relative position must keep inside it."


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
    """Settings survive a round trip through TOML; each is documented, and so is the position."""
    check_settings(case.settings)


@POSITION_CONTRACTS.add("parameters")
def parameters(case: PositionCase) -> None:
    """`embedding_parameters` and `relative_parameters` equal the number of parameters built."""
    width, context = case.shape.model_width, case.shape.context
    embedding = case.settings.build_embedding(width=width, context=context)
    relative_position = case.settings.build_relative_position(case.shape)
    for name, module, declared in (
        ("embedding", embedding, case.settings.embedding_parameters(width=width, context=context)),
        ("relative", relative_position, case.settings.relative_parameters(case.shape)),
    ):
        built = 0 if module is None else sum(p.numel() for p in module.parameters())
        if declared != built:
            raise ContractViolation(
                f"{name}_parameters is {declared:,}, {built:,} are built ({case})"
            )


@POSITION_CONTRACTS.add("embedding")
def embedding_vectors(case: PositionCase) -> None:
    """Each position has one finite embedding of the right width, wherever it is looked up."""
    width = case.shape.model_width
    module = case.settings.build_embedding(width=width, context=case.shape.context)
    if module is None:
        raise NotApplicable("it has no position embedding")
    randomize_parameters(module, torch.Generator().manual_seed(0))
    positions = torch.arange(case.length)
    shuffled = positions[torch.tensor(case.random.sample(range(case.length), case.length))]
    embeddings = module(torch.stack((positions, shuffled)))
    if embeddings.shape != (2, case.length, width) or not embeddings.isfinite().all():
        raise ContractViolation(
            f"returns {tuple(embeddings.shape)}, not (2, {case.length}, {width}) finite values "
            f"({case})"
        )
    what = "embeddings of the same position"
    check_equal(embeddings[1], embeddings[0, shuffled], what=what, case=case)
    if case.length > 1 and torch.equal(embeddings[0, 0], embeddings[0, 1]):
        raise ContractViolation(f"positions 0 and 1 have the same embedding ({case})")


@POSITION_CONTRACTS.add("relative-type")
def relative_type(case: PositionCase) -> None:
    """`relative_type` is what `build_relative_position` returns: rotation, bias, or None."""
    relative_position = case.settings.build_relative_position(case.shape)
    declared = case.settings.relative_type
    if relative_position is None:
        built = None
    else:
        positions = torch.arange(case.length)[None]
        built = "rotation" if relative_position.bias(positions, positions) is None else "bias"
    if declared != built:
        raise ContractViolation(
            f"relative_type is {declared!r}, build_relative_position returns {built!r} ({case})"
        )
    if isinstance(case.settings, AbsolutePositionKind) and relative_position is not None:
        raise ContractViolation("an absolute position has an embedding, not a relative position")


def position_cases(
    part: type[PositionKind], *, seed: str, count: int, sizes: CaseSizes
) -> Iterator[PositionCase]:
    for number in range(count):
        yield first_not_refused(partial(_random_case, part, Random(f"{seed}/{number}"), sizes))


def _random_case(part: type[PositionKind], random: Random, sizes: CaseSizes) -> PositionCase:
    shape, length = random_shape(random, sizes)
    settings = random_settings(part, random)
    settings.build_embedding(width=shape.model_width, context=shape.context)
    settings.build_relative_position(shape)
    return PositionCase(settings, shape, length, random)


def relative_position_cases(
    part: type[PositionKind], *, seed: str, count: int, sizes: CaseSizes
) -> Iterator[AttentionCase]:
    """Scaled dot-product attention with this position inside."""
    if part().relative_type is None:
        raise NotApplicable("it does not act inside attention")
    yield from attention_cases(Dot, seed=seed, count=count, sizes=sizes, position=part)
