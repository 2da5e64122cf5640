"""What a kind of attention says about itself has to be true: parameters, properties, settings.

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
from regard.contracts.masks import NARROWING, WHOLE_ROW, random_named_mask, supports_masks
from regard.core.errors import UserError
from regard.core.settings import Settings, read_settings, to_table


@ATTENTION_CONTRACTS.add("parameters")
def parameters(case: AttentionCase) -> None:
    """`own_parameters` says how many parameters `build` makes."""
    kind, head = case.configuration.kind, case.configuration.shape
    built = sum(parameter.numel() for parameter in kind.build(head).parameters())
    told = kind.own_parameters(head)
    if told != built:
        raise ContractViolation(f"own_parameters says {told:,}, build makes {built:,} ({case})")


@ATTENTION_CONTRACTS.add("traits")
def traits(case: AttentionCase) -> None:
    """Masks, sources and positions it declares are followed; masks it does not are refused."""
    _check_words(case.configuration.kind)
    _check_wiring(case)
    _check_masks(case)
    if case.traits.cross:
        _check_source(case)


@ATTENTION_CONTRACTS.add("recipe")
def recipe(case: AttentionCase) -> None:
    """Its settings survive a recipe, each is documented, and so is the kind."""
    check_settings(case.configuration.kind)


def check_settings(settings: Settings) -> None:
    """Through TOML and back; every field has a string under it, the class a docstring."""
    cls = type(settings)
    if not (cls.__doc__ or "").strip() or cls.__doc__ == BaseModel.__doc__:
        raise ContractViolation(
            f"{cls.__name__} has no docstring: its first line is shown in lists"
        )
    for name, field in cls.model_fields.items():
        if not field.description:
            raise ContractViolation(
                f'{name} is not documented: put a string under it, "What it does."'
            )
    written = tomli_w.dumps(to_table(settings))
    back = read_settings(cls, tomllib.loads(written))
    if back != settings:
        raise ContractViolation(f"{settings!r} comes back from a recipe as {back!r}")


def _check_words(kind: AttentionKind) -> None:
    told = kind.traits
    if not told.cost.strip():
        raise ContractViolation("declares no cost")
    unknown = set(told.fails) - set(ATTENTION_CONTRACTS.names())
    if unknown:
        raise ContractViolation(f"fails names unknown contracts: {', '.join(sorted(unknown))}")
    if told.fails and not told.broken:
        raise ContractViolation("declares contracts it fails, but not what is broken")
    if set(told.relative_positions) - set(get_args(RelativeType)):
        raise ContractViolation(f"relations = {told.relative_positions} names unknown sorts")
    if told.masks != "any" and set(told.masks) - set(MASKS.names()):
        raise ContractViolation(f"masks = {told.masks} names unknown masks")
    if told.cross and not supports_masks(told.masks, "cross"):
        raise ContractViolation("declares cross = True, but not the mask cross")


def _check_masks(case: AttentionCase) -> None:
    """Those declared are taken, others are refused with a sentence, never dropped in silence."""
    mixer, x, positions = case.mixer(), case.vectors(), case.positions()
    b, n = case.configuration.batch, case.configuration.length
    for name in (*WHOLE_ROW, *NARROWING):
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
                raise ContractViolation(f"does not declare the mask {name}, but takes it ({case})")


def _check_source(case: AttentionCase) -> None:
    """Looking at another sequence, what stands there matters, and its length does not."""
    keys = case.random.randint(1, 9)
    mixer, positions = case.mixer(), case.positions()
    for _ in range(10):  # with some values all scores may be 0: not ten times
        randomize_parameters(mixer, case.generator)
        x, memory = case.vectors(), case.vectors(length=keys)
        mask = cross(torch.ones(x.shape[0], keys, dtype=torch.bool))
        out = mixer(x, mask=mask, positions=positions, memory=memory).out
        if out.shape != x.shape:
            raise ContractViolation(
                f"gives {tuple(out.shape)} for {tuple(x.shape)} over a source of {keys} ({case})"
            )
        other = mixer(x, mask=mask, positions=positions, memory=case.like(memory)).out
        if not torch.equal(out, other):
            return
    raise ContractViolation(f"declares cross = True, but the source changes nothing ({case})")


def _check_wiring(case: AttentionCase) -> None:
    """A mixer of its own is built without what stands around a rule, so it cannot promise that."""
    told, asked = case.traits, case.configuration
    promises = (told.relative_positions, told.projections, told.grouped_heads)
    if isinstance(asked.kind.build(asked.shape), Mixer) and promises != ((), ("separate",), False):
        raise ContractViolation(
            "builds a mixer of its own, which no relative position, shared projection or grouped "
            'head reaches: declare relations=(), projections=("separate",), grouped_heads=False'
        )
