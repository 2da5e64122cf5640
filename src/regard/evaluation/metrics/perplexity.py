"""Perplexity: how many equally likely choices the model's surprise amounts to.

    perplexity           exp(ΣL / ΣT)          L nats of a document, T tokens predicted in it
    perplexity_per_byte  exp(ΣL / ΣB)          B bytes of its UTF-8 text
    bits_per_byte        ΣL / (ΣB · ln 2)
    loss_per_document    mean of L / T

Sums over all documents come first, so long documents weigh more than short ones, except in the
last. Per token, only models with one tokenizer can be compared; per byte, any whose
tokens hold all of the text (an <unk> hides bytes that were never predicted). The stop that ends
a document is predicted, so its nats count in L and it counts in T; it has no bytes. Intervals draw
whole documents anew: tokens of one document are not independent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import MIN_ITEMS as MIN_ITEMS
from regard.evaluation.metrics.metric import difference_verdict
from regard.evaluation.statistics.estimate import Estimate, signature
from regard.evaluation.statistics.intervals import Bootstrap, ItemStatistics

SCORE_UNITS = {
    "perplexity": "token",
    "perplexity_per_byte": "byte",
    "bits_per_byte": "byte",
    "loss_per_document": "document",
}

MAX_NATS = 700.0
"exp of more is not a floating-point number."


@dataclass(frozen=True)
class Losses:
    """One row a document: nats, tokens predicted, bytes of text, and nats per token."""

    nll: NDArray[np.float64]
    tokens: NDArray[np.int64]
    bytes: NDArray[np.int64]
    loss: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.nll)

    @property
    def statistics(self) -> ItemStatistics:
        return np.stack([self.nll, self.tokens, self.bytes, self.loss]).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """Measures one part of a corpus; the same for a model and for its baselines."""

    split: str
    "Name and fingerprint of what is measured, as in dev:77abf00d."
    tokenizer: str
    "The tokenizer's fingerprint."
    objective: str = "causal"
    "The objective: which tokens are told, and from what."
    items: str = "documents"
    bootstrap: Bootstrap = field(default_factory=Bootstrap)

    def statistics(self, nll: ArrayLike, *, tokens: ArrayLike, bytes: ArrayLike) -> Losses:
        """The table of items, from each document's nats (the prediction) and its sizes."""
        nats = np.asarray(nll, dtype=np.float64)
        sizes = {"tokens": np.asarray(tokens), "bytes": np.asarray(bytes)}
        if nats.ndim != 1 or not len(nats):
            raise self._error("there is nothing to measure", hint="Give at least one document.")
        for what, size in sizes.items():
            if size.shape != nats.shape:
                raise self._error(
                    f"{len(nats):,} losses came with {size.size:,} counts of {what}",
                    hint="Both must describe the same documents.",
                )
            if (size < 1).any():
                raise self._error(
                    f"{self._item(size < 1)} has no {what}", hint="Drop empty documents first."
                )
        if not np.isfinite(nats).all():
            bad = ~np.isfinite(nats)
            raise self._error(
                f"the loss of {self._item(bad)} is {nats[bad][0]} ({bad.sum():,} such in all)",
                hint="No figure is made of them: look for a model that diverged, or that gives "
                "a token it met no probability at all.",
            )
        counts = {what: size.astype(np.int64) for what, size in sizes.items()}
        return Losses(nll=nats, loss=nats / counts["tokens"], **counts)

    def score(self, table: Losses) -> dict[str, Estimate]:
        """The four figures by name, all from the same draws of documents."""
        for what, size in {"token": table.tokens, "byte": table.bytes}.items():
            nats = table.nll.sum() / size.sum()
            if nats > MAX_NATS:
                raise self._error(f"{nats:,.0f} nats a {what} are too many for a perplexity")
        values = _figures(table.statistics)
        intervals = self.bootstrap.intervals(table.statistics, _figures)
        return {
            name: self._figure(name, per, value=value, interval=interval, n=len(table))
            for (name, per), value, interval in zip(
                SCORE_UNITS.items(), values, intervals, strict=True
            )
        }

    def paired_difference(self, model: Losses, baseline: Losses) -> Estimate:
        """Perplexity per token of the model minus the baseline's, drawn on the same documents."""
        if not np.array_equal(model.tokens, baseline.tokens):
            raise self._error(
                "model and baseline were not measured on the same documents",
                hint="Score both on the same part with the same tokenizer.",
            )
        statistics = np.stack([model.nll, baseline.nll, model.tokens]).astype(np.float64)
        [value] = _difference(statistics)
        [interval] = self.bootstrap.intervals(statistics, _difference)
        return self._figure(
            "perplexity_difference", "token", value=value, interval=interval, n=len(model)
        )

    def _figure(
        self, name: str, per: str, *, value: float, interval: tuple[float, float] | None, n: int
    ) -> Estimate:
        low, high = interval or (None, None)
        return Estimate(
            name=name,
            value=float(value),
            low=low,
            high=high,
            n=n,
            items=self.items,
            signature=signature(
                name,
                per=per,
                tokenizer=self.tokenizer,
                split=self.split,
                objective=self.objective,
                interval=self.bootstrap if interval else "none",
            ),
            no_interval="" if interval else "one item cannot show how items vary",
        )

    def _item(self, found: NDArray[np.bool_]) -> str:
        return f"{self.items.removesuffix('s')} {int(found.argmax()) + 1:,}"

    def _error(self, what: str, *, hint: str = "") -> UserError:
        return UserError(what, topic="evaluation", where=self.split, hint=hint)


def perplexity_verdict(difference: Estimate) -> str:
    """What a difference of perplexities says: lower is better."""
    return difference_verdict(difference, higher_is_better=False)


def _figures(statistics: ItemStatistics) -> NDArray[np.float64]:
    nll, tokens, text_bytes, loss = statistics.sum(axis=-1)
    nats_per_byte = nll / text_bytes
    return np.stack(
        [
            _perplexity(nll / tokens),
            _perplexity(nats_per_byte),
            nats_per_byte / np.log(2),
            loss / statistics.shape[-1],
        ]
    )


def _difference(statistics: ItemStatistics) -> NDArray[np.float64]:
    model, baseline, tokens = statistics.sum(axis=-1)
    return np.asarray((_perplexity(model / tokens) - _perplexity(baseline / tokens))[None])


def _perplexity(nats: NDArray[np.float64]) -> NDArray[np.float64]:
    # A draw of outliers alone may overflow where all documents together do not.
    return np.exp(np.minimum(nats, MAX_NATS))
