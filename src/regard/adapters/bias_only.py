"""Bias only (BitFit): the biases of linear layers and norms are trained, the weights are frozen.

    y = W x + b        norm(x) = g · (x − mean) / std + b        only b changes

Ben Zaken, Goldberg and Ravfogel, 2022. Biases of the embedding norm and of all blocks count; those
of an output layer, a pooler or a span boundary network are outside the backbone and do not.
"""

from __future__ import annotations

from regard.adapters import ADAPTERS, OUTSIDE_BACKBONE, Adapter
from regard.core.errors import UserError
from regard.core.ledger import ParameterCount
from regard.models.families import Family
from regard.models.families.attention_shape import is_bias
from regard.models.model import TokenModel


@ADAPTERS.add("bias", trains="every bias of the body")
class BiasOnly(Adapter):
    """Train the biases of linear layers and norms, and nothing else of the body."""

    def adapt(self, body: TokenModel, *, seed: int) -> None:
        biases = [
            parameter for name, parameter in body.named_parameters() if _is_bias_of_backbone(name)
        ]
        if not biases:
            raise UserError(
                "this model has no biases to train",
                topic="adapt",
                hint='Its linear layers were built without them: adapt by "lora" or "full".',
            )
        for parameter in biases:
            parameter.requires_grad_(True)

    def count_parameters(self, family: Family, *, vocabulary: int) -> list[ParameterCount]:
        return family.count_biases()


def _is_bias_of_backbone(name: str) -> bool:
    return is_bias(name) and not name.startswith(OUTSIDE_BACKBONE)
