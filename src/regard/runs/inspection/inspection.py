"""The result of inspecting a model: tokens, the loss of each, and all attention weights.

Shapes: h heads, i query, j key. Weights of a softmax are in [0, 1]; those of a user's attention
function may be anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, computed_field

from regard.core.json_records import JsonRecord, record_table

SCHEMA = 1
DIGITS = 6
"Decimals of weights and losses in JSON."

Floats = NDArray[np.float64]
Role = Literal["row", "source"]


def _as_weights(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _rounded(weights: Floats) -> Any:
    # + 0.0 turns the −0.0 that rounding can leave into 0.0.
    return (weights.round(DIGITS) + 0.0).tolist()


def _rounded_loss(loss: float) -> float:
    return round(loss, DIGITS)


@dataclass(frozen=True)
class TokenRow:
    """Tokens of one row, in order."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    "As shown: a dot stands for a space."


class AttentionMap(JsonRecord):
    """The weights of one attention layer."""

    name: str
    queries: Role
    "The row whose tokens they are."
    keys: Role
    weights: Annotated[Floats, PlainValidator(_as_weights), PlainSerializer(_rounded)]
    "(h,i,j): weight of each key for a query; zeros for a fully masked query."

    @computed_field  # type: ignore[prop-decorator]
    @property
    def layer(self) -> int:
        found = re.search(r"\bblock\.(\d+)\.", self.name)
        return int(found[1]) if found else 0

    @property
    def stack(self) -> str:
        """The name without the layer: `encoder attention`, `decoder cross attention`."""
        return re.sub(r"\bblock\.\d+\.", "", self.name).replace(".", " ").replace("_", " ")

    @cached_property
    def entropies(self) -> Floats:
        """(h): entropy of a head's weights in nats, averaged over queries with any weight."""
        sizes = np.abs(self.weights)
        total = sizes.sum(axis=-1, keepdims=True)
        p = np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)
        log_p = np.log(p, out=np.zeros_like(p), where=p > 0)
        queries = (total[..., 0] > 0).sum(axis=-1)
        entropy: Floats = -(p * log_p).sum(axis=(-2, -1)) / np.maximum(queries, 1)
        return np.maximum(entropy, 0.0)  # not −0.0, where all weight is on one key


@dataclass(frozen=True)
class TokenLoss:
    token: str
    loss: Annotated[float, PlainSerializer(_rounded_loss)]
    "−log p(token), in nats"


class Inspection(JsonRecord):
    """A text with the model's losses and attention weights."""

    text: str
    row: TokenRow
    "The input tokens; for a seq2seq model, the target."
    source: TokenRow | None
    losses: tuple[TokenLoss, ...]
    "Of the predicted tokens, in order."
    attention: tuple[AttentionMap, ...]
    remarks: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    "Why its losses mean nothing, by the audit of its run; empty if they do."

    @property
    def mean_loss(self) -> float | None:
        return float(np.mean([token.loss for token in self.losses])) if self.losses else None

    def tokens(self, role: Role) -> tuple[str, ...]:
        row = self.source if role == "source" else self.row
        assert row is not None
        return row.tokens

    def as_dict(self) -> dict[str, Any]:
        """For JSON; weights are rounded to 6 digits."""
        return {"schema": SCHEMA, **record_table(self)}
