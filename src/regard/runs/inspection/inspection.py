"""What a look into a model gives: tokens, the loss of each, and every attention's weights.

Shapes: h heads, i query, j key. Weights of a softmax are from 0 to 1; those of a person's own rule
may be anything.
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
"Of weights and losses, where they are written as JSON."

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TokenRow:
    """Tokens in the order in which a model reads them."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    "As people read them: a dot stands for a space."

    def as_dict(self) -> dict[str, Any]:
        return {"ids": list(self.ids), "tokens": list(self.tokens)}


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention."""

    name: str
    queries: TokenRow
    keys: TokenRow
    weights: Floats
    "(h,i,j): how much of each key a query takes; a query that may see nothing has zeros."

    @property
    def layer(self) -> int:
        found = re.search(r"\bblock\.(\d+)\.", self.name)
        return int(found[1]) if found else 0

    @property
    def part(self) -> str:
        """What the maps of all layers share: `encoder attention`, `decoder cross attention`."""
        return re.sub(r"\bblock\.\d+\.", "", self.name).replace(".", " ").replace("_", " ")

    @cached_property
    def entropies(self) -> Floats:
        """(h): how spread a head's weights are, in nats, as a mean over the queries that look."""
        sizes = np.abs(self.weights)
        total = sizes.sum(axis=-1, keepdims=True)
        shares = np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)
        logarithms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        looking = (total[..., 0] > 0).sum(axis=-1)
        spread: Floats = -(shares * logarithms).sum(axis=(-2, -1)) / np.maximum(looking, 1)
        return np.maximum(spread, 0.0)  # −0.0 otherwise, where all weight is on one key


@dataclass(frozen=True)
class TokenLoss:
    token: str
    loss: float
    "−log p(token), in nats"


@dataclass(frozen=True)
class Inspection:
    """A text as a model sees it."""

    text: str
    row: TokenRow
    "What the model read; of a model with a source, the target."
    source: TokenRow | None
    losses: tuple[TokenLoss, ...]
    "Of the tokens that were told, in order."
    maps: tuple[AttentionMap, ...]
    remarks: tuple[str, ...] = ()
    invalid: tuple[str, ...] = ()
    "Why its losses mean nothing, as the audit of its run says; empty where it says nothing."

    @property
    def mean_loss(self) -> float | None:
        return float(np.mean([told.loss for told in self.losses])) if self.losses else None

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
                {"token": told.token, "loss": round(told.loss, DIGITS)} for told in self.losses
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
        """The inverse of `as_dict`, but for the digits it rounds away."""
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
            losses=tuple(TokenLoss(**told) for told in table["losses"]),
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
