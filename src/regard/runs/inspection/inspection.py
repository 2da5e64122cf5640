"""The result of inspecting a model: tokens, the loss of each, and all attention weights.

Shapes: h heads, i query, j key. Weights of a softmax are in [0, 1]; those of a user's attention
function may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCHEMA = 1
DIGITS = 6
"Decimals of weights and losses in JSON."

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TokenRow:
    """Tokens of one row, in order."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    "As shown: a dot stands for a space."

    def as_dict(self) -> dict[str, Any]:
        return {"ids": list(self.ids), "tokens": list(self.tokens)}


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention layer."""

    name: str
    queries: TokenRow
    keys: TokenRow
    weights: Floats
    "(h,i,j): weight of each key for a query; zeros for a fully masked query."

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
    loss: float
    "−log p(token), in nats"


@dataclass(frozen=True)
class Inspection:
    """A text with the model's losses and attention weights."""

    text: str
    row: TokenRow
    "The input tokens; for a seq2seq model, the target."
    source: TokenRow | None
    losses: tuple[TokenLoss, ...]
    "Of the predicted tokens, in order."
    maps: tuple[AttentionMap, ...]
    remarks: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    "Why its losses mean nothing, by the audit of its run; empty if they do."

    @property
    def mean_loss(self) -> float | None:
        return float(np.mean([token.loss for token in self.losses])) if self.losses else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; weights are rounded to 6 digits."""

        def role(row: TokenRow) -> str:
            return "source" if row is self.source else "row"

        return {
            "schema": SCHEMA,
            "text": self.text,
            "row": self.row.as_dict(),
            "source": None if self.source is None else self.source.as_dict(),
            "losses": [
                {"token": one.token, "loss": round(one.loss, DIGITS)} for one in self.losses
            ],
            "attention": [
                {
                    "name": one.name,
                    "layer": one.layer,
                    "queries": role(one.queries),
                    "keys": role(one.keys),
                    # + 0.0 turns the −0.0 that rounding can leave into 0.0.
                    "weights": (one.weights.round(DIGITS) + 0.0).tolist(),
                }
                for one in self.maps
            ],
            "remarks": list(self.remarks),
            "invalid": list(self.invalid),
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Inspection:
        """The inverse of `as_dict`, up to rounding."""
        rows = {
            role: None
            if (ids := table[role]) is None
            else TokenRow(tuple(ids["ids"]), tuple(ids["tokens"]))
            for role in ("row", "source")
        }
        row = rows["row"]
        assert row is not None
        return cls(
            text=table["text"],
            row=row,
            source=rows["source"],
            losses=tuple(TokenLoss(**one) for one in table["losses"]),
            maps=tuple(
                AttentionMap(
                    one["name"],
                    rows[one["queries"]] or row,
                    rows[one["keys"]] or row,
                    np.asarray(one["weights"], dtype=np.float64),
                )
                for one in table["attention"]
            ),
            remarks=tuple(table["remarks"]),
            invalid=tuple(table["invalid"]),
        )
