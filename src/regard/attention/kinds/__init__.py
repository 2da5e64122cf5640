"""Attention kinds, one file each. A kind's settings build its attention function for a head shape.

A kind declares its capabilities (`Traits`): recipes that need more are refused with a sentence, and
the contracts check that the declaration is true.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from regard.attention.function import AttentionFunction, HeadShape
from regard.core.catalog import Catalog
from regard.core.settings import Settings

if TYPE_CHECKING:
    from regard.attention.mixer import Mixer

ATTENTION = Catalog("attention", home="regard.attention.kinds")

Projections = Literal["separate", "shared-qk", "shared-qkv"]
RelativeType = Literal["rotation", "bias"]
AnyKind = TypeVar("AnyKind", bound="type[AttentionKind]")


@dataclass(frozen=True)
class Traits:
    """Capabilities that a kind declares; contracts check them."""

    cost: str
    "How compute grows with the length n and the head width d."
    masks: tuple[str, ...] | Literal["any"] = "any"
    "Names of the masks it supports."
    cacheable: bool = True
    "Whether decoding through a cache equals one forward pass."
    cross: bool = True
    "Whether it supports cross-attention."
    relative_positions: tuple[RelativeType, ...] = ("rotation", "bias")
    "Types of relative position it supports: rotated queries and keys, a bias on the scores."
    projections: tuple[Projections, ...] = ("separate", "shared-qk", "shared-qkv")
    "Ways of sharing the query, key and value projections that it supports."
    grouped_heads: bool = True
    "Whether it supports grouped-query attention: several query heads per key/value head."
    broken: str = ""
    "What is wrong with it, for kinds that are broken on purpose."
    fails: tuple[str, ...] = ()
    "Contracts it fails; a broken kind must declare them, and fail them."

    def supports_mask(self, mask: str) -> bool:
        """Whether it supports the mask of this name."""
        return self.masks == "any" or mask in self.masks


class AttentionKind(Settings, ABC):
    """Settings that build an attention function, or a mixer."""

    traits: ClassVar[Traits]

    @abstractmethod
    def build(self, shape: HeadShape) -> AttentionFunction | Mixer: ...

    def own_parameters(self, shape: HeadShape) -> int:
        """Number of parameters of `build`; a kind with a formula overrides this."""
        return sum(parameter.numel() for parameter in self.build(shape).parameters())


class BrokenKind(AttentionKind):
    """A kind that is broken on purpose, to show what goes wrong."""

    on_purpose: bool = False
    "Train it although it is broken, for a study or a lesson; the report says so in red."


def kind(
    name: str,
    *,
    cost: str,
    masks: tuple[str, ...] | Literal["any"] = "any",
    cacheable: bool = True,
    cross: bool = True,
    relative_positions: tuple[RelativeType, ...] = ("rotation", "bias"),
    projections: tuple[Projections, ...] = ("separate", "shared-qk", "shared-qkv"),
    grouped_heads: bool = True,
    broken: str = "",
    fails: tuple[str, ...] = (),
) -> Callable[[AnyKind], AnyKind]:
    """Decorator: register a kind in the catalogue with its declared traits."""
    traits = Traits(
        cost,
        masks,
        cacheable,
        cross,
        relative_positions,
        projections,
        grouped_heads,
        broken,
        fails,
    )

    def register(cls: AnyKind) -> AnyKind:
        if broken and not issubclass(cls, BrokenKind):
            raise TypeError(
                f"kind {name!r} says what is broken, and {cls.__name__} is no BrokenKind: derive "
                "it from regard.attention.kinds.BrokenKind, so that only on_purpose = true trains "
                "it"
            )
        if issubclass(cls, BrokenKind) and not broken:
            raise TypeError(
                f"{cls.__name__} is a BrokenKind, and kind {name!r} does not say what is wrong: "
                'add broken="what goes wrong" and the contracts it fails'
            )
        cls.traits = traits
        causal = traits.supports_mask("causal")
        return ATTENTION.add(name, **asdict(traits), causal=causal)(cls)

    return register
