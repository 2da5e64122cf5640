"""Contracts on what an attention kind declares: parameter counts, traits, settings.

Masks: True = may attend.
"""

from __future__ import annotations

import tomllib
from typing import get_args

import tomli_w
import torch
from pydantic import BaseModel

from regard.attention.kinds import AttentionKind, RelativeType
from regard.attention.masks.mask import MASKS, cross
from regard.attention.mixer import Mixer
from regard.contracts.attention import ATTENTION_CONTRACTS
from regard.contracts.case import AttentionCase, randomize_parameters
from regard.contracts.contract import ContractViolation
from regard.contracts.masks import (
    PATTERN_MASKS,
    RESTRICTING_MASKS,
    random_named_mask,
    supports_masks,
)
from regard.core.errors import UserError
from regard.core.setting_docs import setting_docs
from regard.core.settings import Settings, read_settings, to_table


@ATTENTION_CONTRACTS.add("parameters")
def parameters(case: AttentionCase) -> None:
    """`own_parameters` equals the number of parameters of `build`."""
    kind, shape = case.configuration.kind, case.configuration.shape
    built = sum(parameter.numel() for parameter in kind.build(shape).parameters())
    declared = kind.own_parameters(shape)
    if declared != built:
        raise ContractViolation(f"own_parameters is {declared:,}, build has {built:,} ({case})")


@ATTENTION_CONTRACTS.add("traits")
def traits(case: AttentionCase) -> None:
    """Declared masks, positions and cross-attention are supported; other masks are refused."""
    _check_values(case.configuration.kind)
    _check_mixer_traits(case)
    _check_masks(case)
    if case.traits.cross:
        _check_cross_attention(case)


@ATTENTION_CONTRACTS.add("recipe")
def recipe(case: AttentionCase) -> None:
    """Settings survive a round trip through TOML; each is documented, and so is the kind."""
    check_settings(case.configuration.kind)


def check_settings(settings: Settings) -> None:
    """Round trip through TOML; every field has a string under it, the class a docstring."""
    cls = type(settings)
    if not (cls.__doc__ or "").strip() or cls.__doc__ == BaseModel.__doc__:
        raise ContractViolation(
            f"{cls.__name__} has no docstring: its first line is shown in lists"
        )
    docs = setting_docs(cls)
    for name in cls.model_fields:
        if name not in docs:
            raise ContractViolation(
                f'{name} is not documented: put a string under it, "What it does."'
            )
    toml = tomli_w.dumps(to_table(settings))
    parsed = read_settings(cls, tomllib.loads(toml))
    if parsed != settings:
        raise ContractViolation(f"{settings!r} is read back from a recipe as {parsed!r}")


def _check_values(kind: AttentionKind) -> None:
    traits = kind.traits
    if not traits.cost.strip():
        raise ContractViolation("declares no cost")
    unknown = set(traits.fails) - set(ATTENTION_CONTRACTS)
    if unknown:
        raise ContractViolation(f"fails names unknown contracts: {', '.join(sorted(unknown))}")
    if traits.fails and not traits.broken:
        raise ContractViolation("declares contracts it fails, but not what is broken")
    if set(traits.relative_positions) - set(get_args(RelativeType)):
        raise ContractViolation(
            f"relative_positions = {traits.relative_positions} names unknown types"
        )
    if traits.masks != "any" and set(traits.masks) - set(MASKS.names()):
        raise ContractViolation(f"masks = {traits.masks} names unknown masks")
    if traits.cross and not supports_masks(traits.masks, "cross"):
        raise ContractViolation("declares cross = True, but not the mask cross")


def _check_masks(case: AttentionCase) -> None:
    """Declared masks are accepted; others are refused with an error, never ignored."""
    mixer, x, positions = case.mixer(), case.inputs(), case.positions()
    b, n = case.configuration.batch, case.configuration.length
    for name in (*PATTERN_MASKS, *RESTRICTING_MASKS):
        mask = random_named_mask(name, case.random, batch=b, length=n)
        declared = supports_masks(case.traits.masks, name)
        try:
            mixer(x, mask=mask, positions=positions)
        except UserError as refusal:
            if declared:
                raise ContractViolation(
                    f"declares the mask {name}, but refuses it: {refusal} ({case})"
                ) from None
        else:
            if not declared:
                raise ContractViolation(
                    f"does not declare the mask {name}, but accepts it ({case})"
                )


def _check_cross_attention(case: AttentionCase) -> None:
    """The memory may have any length, and the output depends on it."""
    keys = case.random.randint(1, 9)
    mixer, positions = case.mixer(), case.positions()
    for _ in range(10):  # all scores can be 0 by chance, but not ten times
        randomize_parameters(mixer, case.generator)
        x, memory = case.inputs(), case.inputs(length=keys)
        mask = cross(torch.ones(x.shape[0], keys, dtype=torch.bool))
        out = mixer(x, mask=mask, positions=positions, memory=memory).out
        if out.shape != x.shape:
            raise ContractViolation(
                f"returns {tuple(out.shape)} for {tuple(x.shape)} and a memory of {keys} ({case})"
            )
        changed = mixer(x, mask=mask, positions=positions, memory=case.random_like(memory)).out
        if not torch.equal(out, changed):
            return
    raise ContractViolation(
        f"declares cross = True, but the output does not depend on the memory ({case})"
    )


def _check_mixer_traits(case: AttentionCase) -> None:
    """A kind that builds a mixer cannot support what `MultiHeadAttention` adds to a function."""
    traits, configuration = case.traits, case.configuration
    declared = (traits.relative_positions, traits.projections, traits.grouped_heads)
    is_mixer = isinstance(configuration.kind.build(configuration.shape), Mixer)
    if is_mixer and declared != ((), ("separate",), False):
        raise ContractViolation(
            "builds a mixer, which gets no relative position, shared projections or grouped "
            'heads: declare relative_positions=(), projections=("separate",), grouped_heads=False'
        )
