"""Model families, one file each: settings that build a model and count its parameters.

What adapters count by formula they ask of the family: its attentions, linear layers and biases. A
family in a user's own file that describes these can be adapted as the built-in ones are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from pydantic import Field

from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount, total_parameters
from regard.core.process.memory_limits import memory_limits
from regard.core.settings import Settings
from regard.core.untrusted import MAX_POSITIONS
from regard.models.families.attention_shape import AttentionShape, LinearShape
from regard.models.model import TokenModel

FAMILIES = Catalog("family", home="regard.models.families", required=("predicts", "objectives"))


class Family(Settings, ABC):
    """Settings that build a model; the seed decides its initial weights."""

    context: int = Field(default=100, ge=2, le=MAX_POSITIONS)
    "Context length: the maximum sequence length in tokens."

    @abstractmethod
    def build(self, *, vocabulary: int, seed: int) -> TokenModel: ...

    @abstractmethod
    def count_parameters(self, vocabulary: int) -> list[ParameterCount]:
        """Parameters of each module by formula; their sum equals the count of the built model."""

    def count_buffers(self) -> int:
        """Values that the built model holds besides parameters, if they are many."""
        return 0

    @property
    def token_width(self) -> int:
        """Width of a token embedding, by which a prompt is counted."""
        raise self._not_declared("token_width", "prompt")

    def stacks(self) -> Mapping[str, Sequence[Mapping[str, AttentionShape]]]:
        """The attentions of each Transformer block, by name, in each stack by name; the last stack
        is below the head. Empty for a family without blocks."""
        return {}

    def linear_layers(self) -> dict[str, LinearShape]:
        """The linear layers below the head by module name, as LoRA can target them."""
        return {}

    def count_biases(self) -> list[ParameterCount]:
        """The biases below the head."""
        return []

    def count_top_layers(self, layers: int) -> list[ParameterCount]:
        """The last blocks and the final norm of the last stack."""
        raise self._not_declared("count_top_layers", "top")

    def _not_declared(self, name: str, adapter: str) -> UserError:
        return UserError(
            f"{type(self).__name__} does not declare {name}, by which adapt.kind = {adapter!r} "
            "counts its parameters",
            topic="adapt",
            hint=f"Define {name} in the family, or choose another adapter.",
        )

    def size_symbol(self, size: int) -> str:
        """A size as formulas write it: a letter, or the number itself."""
        return str(size)


def _check_memory(family: Family, vocabulary: int) -> None:
    """Refuse a model whose weights alone exceed the memory of this machine."""
    needed = 4 * total_parameters(family.count_parameters(vocabulary))
    available = memory_limits().total
    if available is not None and needed > available:
        raise UserError(
            f"its weights alone take {needed / 1e9:,.0f} GB, and this machine has "
            f"{available / 1e9:,.0f} GB",
            topic="model",
            hint="Lower model.width, model.layers or the vocabulary.",
        )


def build_model(family: Family, *, vocabulary: int, seed: int) -> TokenModel:
    """The family's model, which has to be a `TokenModel`: a family may be in a user's own file."""
    _check_memory(family, vocabulary)
    model: object = family.build(vocabulary=vocabulary, seed=seed)
    if not isinstance(model, TokenModel):
        raise UserError(
            f"{type(family).__name__} builds a {type(model).__name__}, not a TokenModel",
            topic="model",
            where="model.family",
            hint="Derive the model from regard.models.model.TokenModel.",
        )
    return model
