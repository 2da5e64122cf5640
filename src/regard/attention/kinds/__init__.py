"""Every kind of attention, one file each. A kind's settings build its rule for a head's shape.

A kind declares what it can do (`Traits`): recipes that ask for more are refused with a sentence,
and the contracts check that what is declared is true.
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
RelationSort = Literal["rotation", "bias"]
AnyKind = TypeVar("AnyKind", bound="type[AttentionKind]")


@dataclass(frozen=True)
class Traits:
    """What a kind declares about itself."""

    cost: str
    "How time grows with the length n and the head width d."
    masks: tuple[str, ...] | Literal["any"] = "any"
    "Masks it can follow, by name."
    cacheable: bool = True
    "Whether decoding one token at a time gives what a whole pass gives."
    cross: bool = True
    "Whether it can attend from one sequence to another."
    relations: tuple[RelationSort, ...] = ("rotation", "bias")
    "Relative positions it can take: turned queries and keys, or a bias on the scores."
    projections: tuple[Projections, ...] = ("separate", "shared-qk", "shared-qkv")
    grouped_heads: bool = True
    "Whether several query heads may share a key/value head."
    broken: str = ""
    "What is wrong with it, for kinds that are wrong on purpose."
    fails: tuple[str, ...] = ()
    "The contracts it fails; a broken kind has to name them, and really fail them."

    def follows(self, mask: str) -> bool:
        """Whether it can follow the mask of this name."""
        return self.masks == "any" or mask in self.masks


class AttentionKind(Settings, ABC):
    """Settings from which a rule, or a whole mixer, is built."""

    traits: ClassVar[Traits]

    @abstractmethod
    def build(self, shape: HeadShape) -> AttentionFunction | Mixer: ...

    def own_parameters(self, shape: HeadShape) -> int:
        """How many parameters `build` makes; a kind with a formula of its own overrides this."""
        return sum(parameter.numel() for parameter in self.build(shape).parameters())


class BrokenKind(AttentionKind):
    """A kind that is wrong on purpose, to show what goes wrong."""

    on_purpose: bool = False
    "Train it although it is broken, for a study or a lesson; the report says so in red."


def kind(
    name: str,
    *,
    cost: str,
    masks: tuple[str, ...] | Literal["any"] = "any",
    cacheable: bool = True,
    cross: bool = True,
    relations: tuple[RelationSort, ...] = ("rotation", "bias"),
    projections: tuple[Projections, ...] = ("separate", "shared-qk", "shared-qkv"),
    grouped_heads: bool = True,
    broken: str = "",
    fails: tuple[str, ...] = (),
) -> Callable[[AnyKind], AnyKind]:
    """Decorator: put a kind into the catalogue, with what it declares about itself."""
    traits = Traits(
        cost,
        masks,
        cacheable,
        cross,
        relations,
        projections,
        grouped_heads,
        broken,
        fails,
    )

    def register(cls: AnyKind) -> AnyKind:
        if bool(broken) != issubclass(cls, BrokenKind):
            raise TypeError(_half_declared(name, cls.__name__, broken=broken))
        cls.traits = traits
        sees = {"causal": traits.follows("causal")}
        return ATTENTION.add(name, **asdict(traits), **sees)(cls)

    return register


def _half_declared(name: str, cls: str, *, broken: str) -> str:
    if broken:
        return (
            f"kind {name!r} says what is broken, and {cls} is no BrokenKind: derive it "
            "from regard.attention.kinds.BrokenKind, so that only on_purpose = true trains it"
        )
    return (
        f"{cls} is a BrokenKind, and kind {name!r} does not say what is wrong: "
        'add broken="what goes wrong" and the contracts it fails'
    )
